import type { VNode } from 'preact';
import type { ShownState } from '../state/shown-state.ts';
import styles from './state-pill.module.css';

/** A state with its color and its sign; the sign is for people who cannot see the color. */
export const StatePill = ({ state }: { readonly state: ShownState }): VNode => (
  <span class={styles['pill']} data-state={state.key} data-tone={state.tone}>
    <span class={styles['sign']} aria-hidden="true">
      {SIGNS[state.tone]}
    </span>
    {state.label}
  </span>
);

const SIGNS: Readonly<Record<ShownState['tone'], string>> = {
  active: '●',
  good: '✓',
  bad: '✕',
  warn: '◆',
  idle: '○',
  unknown: '?',
};
