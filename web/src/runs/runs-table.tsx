import type { ComponentChildren, VNode } from 'preact';
import { memo } from 'preact/compat';
import type { TaskRow } from '../api/requests.ts';
import { ageText, duration } from '../state/format-time.ts';
import { stateOf } from '../state/shown-state.ts';
import { isFinal } from '../../../src/event/fold/entry-rules.ts';
import { StatePill } from '../ui/state-pill.tsx';
import styles from './runs-table.module.css';

export type SortKey = 'changed' | 'started' | 'duration' | 'firstToken' | 'tokens';

interface Column {
  readonly key: SortKey | 'state' | 'title' | 'agent' | 'owner';
  readonly label: string;
  readonly isNumber?: true;
}

const COLUMNS: readonly Column[] = [
  { key: 'state', label: 'State' },
  { key: 'title', label: 'Run' },
  { key: 'agent', label: 'Agent' },
  { key: 'started', label: 'Started', isNumber: true },
  { key: 'duration', label: 'Duration', isNumber: true },
  { key: 'firstToken', label: 'First token', isNumber: true },
  { key: 'tokens', label: 'Tokens', isNumber: true },
];

const SORTED: Readonly<Record<SortKey, (row: TaskRow) => number>> = {
  changed: ({ updatedAt }) => updatedAt,
  started: ({ createdAt }) => createdAt,
  duration: (row) => row.updatedAt - row.createdAt,
  firstToken: ({ firstTextAt, createdAt }) =>
    firstTextAt === undefined ? -1 : firstTextAt - createdAt,
  tokens: ({ usage }) => (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0),
};

export interface Sorting {
  readonly key: SortKey;
  readonly isDescending: boolean;
}

/** The runs in the order of a column. The order of the server is by the last change. */
export function sortRuns(
  rows: readonly TaskRow[],
  { key, isDescending }: Sorting,
): readonly TaskRow[] {
  if (key === 'changed') return rows;
  const sign = isDescending ? -1 : 1;
  return rows.toSorted((a, b) => sign * (SORTED[key](a) - SORTED[key](b)));
}

/** The runs as a table, by conversation if `isGrouped`. */
export function RunsTable({
  rows,
  now,
  sorting,
  onSort,
  isGrouped,
}: {
  readonly rows: readonly TaskRow[];
  readonly now: number;
  readonly sorting: Sorting;
  readonly onSort: (sorting: Sorting) => void;
  readonly isGrouped: boolean;
}): VNode {
  const sorted = sortRuns(rows, sorting);
  return (
    <table class={styles['table']} data-part="runs">
      <thead>
        <tr>
          {COLUMNS.map(({ key, label, isNumber }) => (
            <th
              key={key}
              scope="col"
              data-column={key}
              class={isNumber && styles['number']}
              aria-sort={
                sorting.key === key
                  ? sorting.isDescending
                    ? 'descending'
                    : 'ascending'
                  : undefined
              }
            >
              {key in SORTED ? (
                <SortButton column={key as SortKey} sorting={sorting} onSort={onSort}>
                  {label}
                </SortButton>
              ) : (
                label
              )}
            </th>
          ))}
        </tr>
      </thead>
      {isGrouped ? (
        [...byConversation(sorted)].map(([context, group]) => (
          <tbody key={context} data-part="conversation-group">
            {group.length > 1 && (
              <tr class={styles['group']}>
                <th scope="rowgroup" colSpan={COLUMNS.length}>
                  Conversation of {group.length} runs
                </th>
              </tr>
            )}
            {group.map((row) => (
              <RunRow key={row.task} row={row} age={ageText(now - row.createdAt)} />
            ))}
          </tbody>
        ))
      ) : (
        <tbody>
          {sorted.map((row) => (
            <RunRow key={row.task} row={row} age={ageText(now - row.createdAt)} />
          ))}
        </tbody>
      )}
    </table>
  );
}

function byConversation(rows: readonly TaskRow[]): ReadonlyMap<string, readonly TaskRow[]> {
  const groups = new Map<string, TaskRow[]>();
  for (const row of rows) {
    const group = groups.get(row.context);
    if (group) group.push(row);
    else groups.set(row.context, [row]);
  }
  return groups;
}

const SortButton = ({
  column,
  sorting,
  onSort,
  children,
}: {
  readonly column: SortKey;
  readonly sorting: Sorting;
  readonly onSort: (sorting: Sorting) => void;
  readonly children: ComponentChildren;
}): VNode => {
  const isCurrent = sorting.key === column;
  const next: Sorting = !isCurrent
    ? { key: column, isDescending: true }
    : sorting.isDescending
      ? { key: column, isDescending: false }
      : { key: 'changed', isDescending: true };
  return (
    <button type="button" class={styles['sort']} onClick={() => onSort(next)}>
      {children}
      <span aria-hidden="true">{isCurrent ? (sorting.isDescending ? ' ↓' : ' ↑') : ''}</span>
    </button>
  );
};

/** A row is drawn again only when its run or its age changed. */
const RunRow = memo(({ row, age }: { readonly row: TaskRow; readonly age: string }): VNode => {
  const { createdAt, updatedAt, firstTextAt, usage } = row;
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return (
    <tr class={styles['row']} data-part="run" data-task={row.task}>
      <td>
        <StatePill state={stateOf(row)} />
      </td>
      <td class={styles['title']}>
        <a href={`#${row.task}`}>{row.title || row.agent}</a>
        {row.error && <span class={styles['error']}>{row.error.message}</span>}
      </td>
      <td data-column="agent">{row.agent}</td>
      <td
        class={styles['number']}
        data-column="started"
        title={new Date(createdAt).toLocaleString()}
      >
        {age}
      </td>
      <td class={styles['number']} data-column="duration">
        {isFinal(row.state) ? duration(updatedAt - createdAt) : '–'}
      </td>
      <td class={styles['number']} data-column="firstToken">
        {firstTextAt === undefined ? '–' : duration(firstTextAt - createdAt)}
      </td>
      <td class={styles['number']} data-column="tokens">
        {tokens > 0 ? tokens.toLocaleString() : '–'}
      </td>
    </tr>
  );
});
