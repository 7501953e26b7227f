import { createContext, type Context } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { TaskRow } from '../api/requests.ts';
import { subscribeToChanges } from '../api/subscribe-to-changes.ts';

/** The stream of changed tasks: one for the page, however many lists it shows. */
export interface TaskFeed {
  readonly isOnline: boolean;
  /** Calls the listener with changed rows, and with undefined when a list must be read again. */
  readonly listen: (listener: (rows: readonly TaskRow[] | undefined) => void) => () => void;
}

export const Changes: Context<TaskFeed> = createContext<TaskFeed>({
  isOnline: true,
  listen: () => () => {},
});

export const useChanges = (): TaskFeed => useContext(Changes);

/** Opens the stream while the page is shown. */
export function useTaskFeed(): TaskFeed {
  const [listeners] = useState(() => new Set<(rows: readonly TaskRow[] | undefined) => void>());
  const [isOnline, setOnline] = useState(true);
  useEffect(
    () =>
      subscribeToChanges({
        connected() {
          setOnline(true);
          for (const listener of listeners) listener(undefined);
        },
        tasks(rows) {
          for (const listener of listeners) listener(rows);
        },
        lost: () => setOnline(false),
      }),
    [],
  );
  const [listen] = useState(() => (listener: (rows: readonly TaskRow[] | undefined) => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  });
  return { isOnline, listen };
}
