import { useEffect, useRef, useState } from 'preact/hooks';
import { fetchRuns, type RunFilter, type TaskRow } from '../api/requests.ts';
import { useChanges } from './use-changes.ts';

export interface RunList {
  /** Newest change first. */
  readonly rows: readonly TaskRow[];
  readonly isLoading: boolean;
  /** Whether there are further list pages. */
  readonly hasMore: boolean;
  /** With a search: how many runs it has looked at. */
  readonly scanned: number | undefined;
  readonly more: () => void;
}

const PAGE_ROWS = 50;

/**
 * The runs that match a filter: list pages by cursor from the server, kept up to date by the stream
 * of changes. A change that cannot be placed by the page itself (a search) reads the list again.
 */
export function useRuns(filter: RunFilter, onError: (error: unknown) => void): RunList {
  const feed = useChanges();
  const key = JSON.stringify(filter);
  const [rows, setRows] = useState<readonly TaskRow[]>([]);
  const [after, setAfter] = useState<string>();
  const [scanned, setScanned] = useState<number>();
  const [isLoading, setLoading] = useState(true);
  const current = useRef(key);
  current.current = key;

  const load = async (from: string | undefined): Promise<void> => {
    setLoading(true);
    try {
      const page = await fetchRuns(filter, from, PAGE_ROWS);
      if (current.current !== key) return; // the filter has changed meanwhile
      setRows((was) => (from === undefined ? page.tasks : merge(was, page.tasks)));
      setAfter(page.after);
      setScanned((was) =>
        page.scanned === undefined
          ? undefined
          : page.scanned + (from === undefined ? 0 : (was ?? 0)),
      );
    } catch (error) {
      onError(error);
    } finally {
      setLoading(false);
    }
  };

  useEffect(() => {
    void load(undefined);
    return feed.listen((changed) => {
      if (changed === undefined || filter.q) void load(undefined);
      else
        setRows((was) => {
          const fit = changed.filter((row) => isWanted(row, filter));
          const ids = new Set(changed.map(({ task }) => task));
          return [...fit, ...was.filter(({ task }) => !ids.has(task))];
        });
    });
  }, [key]);

  return {
    rows,
    isLoading,
    hasMore: after !== undefined,
    scanned,
    more: () => void load(after),
  };
}

const isWanted = (row: TaskRow, { agent, state, context }: RunFilter): boolean =>
  (agent === undefined || row.agent === agent) &&
  (state === undefined || row.state === state) &&
  (context === undefined || row.context === context);

/** A run that changed during the paging moved to the front, so it may come twice. */
function merge(before: readonly TaskRow[], next: readonly TaskRow[]): readonly TaskRow[] {
  const known = new Set(before.map(({ task }) => task));
  return [...before, ...next.filter(({ task }) => !known.has(task))];
}
