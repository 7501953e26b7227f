import type { VNode } from 'preact';
import { MARK_TEXTS, type ContractRule } from '../state/contract-check.ts';
import controls from '../ui/controls.module.css';
import styles from './contract-panel.module.css';

const MARKS = { kept: '✓', broken: '✕', open: '…' } as const;

/** The rules of the stream contract, each with its result and the entries that prove it. */
export function ContractPanel({
  rules,
  onShow,
}: {
  readonly rules: readonly ContractRule[];
  /** Selects an entry by its number. */
  readonly onShow: (seq: number) => void;
}): VNode {
  return (
    <section class={styles['panel']} aria-label="Contract" data-part="contract">
      <h2>What this page checked</h2>
      <p class={controls['soft']}>
        Every entry is folded again here by the rules of the log. A broken rule stays broken.
      </p>
      <ul class={styles['rules']}>
        {rules.map(({ name, state, detail, evidence }) => (
          <li key={name} class={styles['rule']} data-rule={state}>
            <details>
              <summary>
                <span class={styles['mark']} aria-hidden="true">
                  {MARKS[state]}
                </span>{' '}
                {name}
                <span class={controls['hidden']}>: {MARK_TEXTS[state]}</span>
                {detail && <span class={styles['detail']}>{detail}</span>}
              </summary>
              <ul class={styles['evidence']}>
                {evidence.map(({ text, seq }) => (
                  <li key={text}>
                    {seq === undefined ? (
                      text
                    ) : (
                      <button type="button" class={styles['show']} onClick={() => onShow(seq)}>
                        {text}
                      </button>
                    )}
                  </li>
                ))}
                {evidence.length === 0 && <li>no evidence yet</li>}
              </ul>
            </details>
          </li>
        ))}
      </ul>
    </section>
  );
}
