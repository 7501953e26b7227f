import type { VNode } from 'preact';
import styles from './wordmark.module.css';

/** The name of the product with its sign: two lanes. */
export const Wordmark = (): VNode => (
  <span class={styles['mark']}>
    <svg viewBox="0 0 22 16" width="22" height="16" aria-hidden="true">
      <rect x="0" y="1" width="16" height="5" rx="2.5" class={styles['message']} />
      <rect x="6" y="10" width="16" height="5" rx="2.5" class={styles['control']} />
    </svg>
    duolane
  </span>
);
