import type { VNode } from 'preact';
import styles from './tab-bar.module.css';

/** Tabs over panels. The arrow keys move between them. */
export function TabBar<Id extends string>({
  label,
  tabs,
  chosen,
  onChoose,
  prefix,
}: {
  readonly label: string;
  readonly tabs: readonly { readonly id: Id; readonly text: string }[];
  readonly chosen: Id;
  readonly onChoose: (id: Id) => void;
  /** The panel of a tab has the id `<prefix>-<tab>`. */
  readonly prefix: string;
}): VNode {
  const move = (by: number): void => {
    const at = tabs.findIndex(({ id }) => id === chosen);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.id);
    document.getElementById(`${prefix}-tab-${next.id}`)?.focus();
  };
  return (
    <div class={styles['bar']} role="tablist" aria-label={label}>
      {tabs.map(({ id, text }) => (
        <button
          key={id}
          id={`${prefix}-tab-${id}`}
          type="button"
          role="tab"
          class={styles['tab']}
          aria-selected={id === chosen}
          aria-controls={`${prefix}-${id}`}
          tabIndex={id === chosen ? 0 : -1}
          onClick={() => onChoose(id)}
          onKeyDown={({ key }) => {
            if (key === 'ArrowRight') move(1);
            if (key === 'ArrowLeft') move(-1);
          }}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
