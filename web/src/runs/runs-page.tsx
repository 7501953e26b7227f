import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { AgentCardLite, RunFilter } from '../api/requests.ts';
import controls from '../ui/controls.module.css';
import { Replicas } from './replica-list.tsx';
import { RunForm } from './run-form.tsx';
import { RunsTable, type Sorting } from './runs-table.tsx';
import styles from './runs-page.module.css';
import { useRuns } from './use-runs.ts';

const TYPING_MS = 250;
const TICK_MS = 10_000;

const STATE_CHIPS: readonly { readonly state: string | undefined; readonly label: string }[] = [
  { state: undefined, label: 'all' },
  { state: 'working', label: 'working' },
  { state: 'input-required', label: 'waiting' },
  { state: 'completed', label: 'completed' },
  { state: 'failed', label: 'failed' },
  { state: 'canceled', label: 'canceled' },
];

/** The start page: run an agent, and all runs as a table. */
export function RunsPage({
  agents,
  operator,
  onError,
  onTour,
}: {
  readonly agents: readonly AgentCardLite[];
  /** Whether the user may see the replicas, which concern all users. */
  readonly operator: boolean;
  readonly onError: (error: unknown) => void;
  /** Starts the tour; undefined on a server without its agent. */
  readonly onTour: (() => void) | undefined;
}): VNode {
  const [chosen, setChosen] = useState(0);
  const [filter, setFilter] = useState<RunFilter>({});
  const [typed, setTyped] = useState('');
  const [sorting, setSorting] = useState<Sorting>({ key: 'changed', isDescending: true });
  const [isGrouped, setGrouped] = useState(false);
  const [now, setNow] = useState(() => Date.now());
  const { rows, hasMore, isLoading, scanned, more } = useRuns(filter, onError);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  useEffect(() => {
    const timer = setTimeout(
      () => setFilter((was) => withMember(was, 'q', typed.trim())),
      TYPING_MS,
    );
    return () => clearTimeout(timer);
  }, [typed]);
  const agent = agents[chosen];
  const isFiltered = Object.keys(filter).length > 0;
  return (
    <div class={styles['page']}>
      <aside class={styles['side']} aria-label="Run an agent">
        <section class={styles['card']}>
          <h2>Run an agent</h2>
          {agents.length > 1 && (
            <select
              aria-label="Agent"
              value={agent?.name}
              onChange={(event) => setChosen(event.currentTarget.selectedIndex)}
            >
              {agents.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
          {agent && <RunForm key={agent.name} agent={agent} />}
        </section>
        {onTour && (
          <section class={styles['card']}>
            <h2>New here?</h2>
            <p class={controls['soft']}>
              A run at human speed: cut its connection, reconnect, cancel. About a minute.
            </p>
            <button type="button" onClick={onTour}>
              Take the tour
            </button>
          </section>
        )}
        {operator && <Replicas />}
      </aside>
      <section class={styles['runs']} aria-label="Runs">
        <div class={styles['bar']}>
          <h1 class={styles['title']}>Runs</h1>
          <input
            type="search"
            class={styles['search']}
            aria-label="Search runs"
            placeholder="Search title, agent, error, id"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <span class={styles['chips']} role="group" aria-label="State">
            {STATE_CHIPS.map(({ state, label }) => (
              <button
                key={label}
                type="button"
                class={styles['chip']}
                aria-pressed={filter.state === state}
                onClick={() => setFilter((was) => withMember(was, 'state', state ?? ''))}
              >
                {label}
              </button>
            ))}
          </span>
          {agents.length > 1 && (
            <select
              aria-label="Runs of agent"
              value={filter.agent ?? ''}
              onChange={(event) => {
                const { value } = event.currentTarget;
                setFilter((was) => withMember(was, 'agent', value));
              }}
            >
              <option value="">every agent</option>
              {agents.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
          <button
            type="button"
            class={styles['chip']}
            aria-pressed={isGrouped}
            onClick={() => setGrouped(!isGrouped)}
          >
            by conversation
          </button>
        </div>
        <div class={styles['scroller']} tabIndex={0} role="group" aria-label="Table of runs">
          {rows.length > 0 ? (
            <RunsTable
              rows={rows}
              now={now}
              sorting={sorting}
              onSort={setSorting}
              isGrouped={isGrouped}
            />
          ) : (
            !isLoading && <EmptyRuns isFiltered={isFiltered} />
          )}
          <p class={styles['foot']}>
            {sorting.key !== 'changed' && hasMore && 'Sorted among the loaded runs. '}
            {scanned !== undefined && `Searched ${scanned.toLocaleString()} runs. `}
            {rows.length > 0 && `${rows.length.toLocaleString()} shown. `}
            {hasMore && (
              <button type="button" disabled={isLoading} onClick={more}>
                {scanned === undefined ? 'Load more' : 'Search on'}
              </button>
            )}
          </p>
        </div>
      </section>
    </div>
  );
}

/** The filter with one member replaced, or removed if the value is empty. */
function withMember(filter: RunFilter, name: keyof RunFilter, value: string): RunFilter {
  const others = Object.entries(filter).filter(([key]) => key !== name);
  return Object.fromEntries(value === '' ? others : [...others, [name, value]]);
}

const EmptyRuns = ({ isFiltered }: { readonly isFiltered: boolean }): VNode =>
  isFiltered ? (
    <p class={styles['empty']}>No run matches. Remove a filter to see more.</p>
  ) : (
    <div class={styles['empty']}>
      <h2>No runs yet</h2>
      <p>Run an agent, and watch it here.</p>
      <ul>
        <li>
          <b class={styles['message']}>Message lane</b>: what the agent writes, as it writes it.
        </li>
        <li>
          <b class={styles['control']}>Control lane</b>: every tool call and request, as long as it
          took.
        </li>
        <li>Press Disconnect during a run, then Reconnect: no event is missing.</li>
        <li>Cancel a run: it ends with one final event, and you see how long that took.</li>
      </ul>
    </div>
  );
