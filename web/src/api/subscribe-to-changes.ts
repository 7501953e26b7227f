import type { TaskRow } from './requests.ts';

export interface ChangeListener {
  /** Called after each connection: what changed before it is unknown, so lists are read again. */
  connected(): void;
  tasks(rows: readonly TaskRow[]): void;
  lost(): void;
}

const RETRY_MS = 2000;

/** Reports the tasks that change, for all lists of the page. Returns a function that stops it. */
export function subscribeToChanges(on: ChangeListener): () => void {
  let isClosed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let source = open();

  function open(): EventSource {
    const stream = new EventSource('/api/changes');
    stream.addEventListener('head', () => on.connected());
    stream.addEventListener('tasks', ({ data }) =>
      on.tasks((JSON.parse(data as string) as { tasks: readonly TaskRow[] }).tasks),
    );
    stream.addEventListener('failure', () => {
      stream.close();
      retry();
    });
    stream.onerror = () => {
      on.lost();
      // The browser reconnects unless the server refused the request.
      if (stream.readyState === EventSource.CLOSED) retry();
    };
    return stream;
  }

  function retry(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!isClosed) source = open();
    }, RETRY_MS);
  }

  return () => {
    isClosed = true;
    clearTimeout(timer);
    source.close();
  };
}
