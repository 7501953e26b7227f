import type { Failure } from '../../../src/errors.ts';
import type { Entry } from '../../../src/event/types.ts';
import { parseEntry, SignInRequired, type StreamHead } from './requests.ts';

export interface TaskSubscription {
  close(): void;
}

export interface TaskListener {
  /** Called once per connection, before its entries. */
  head(head: StreamHead): void;
  entry(entry: Entry): void;
  /** The server has sent something: it is alive. */
  alive(): void;
  connection(state: 'live' | 'lost' | 'failed' | 'ended' | 'gone'): void;
  failed(error: Error): void;
}

const RETRY_MS = 1000;
const MAX_RETRY_MS = 15_000;

/**
 * Passes the entries behind `after` to the listener, in order and each once, until the task has
 * ended or `close` is called. After a lost connection it resumes behind the last entry: the browser
 * reconnects, and where the browser gives up this function does. It also resumes a stream that the
 * server ended with a retryable failure. Any other failure is reported as `failed`, and the user
 * may reconnect.
 */
export function subscribeToTask(task: string, after: number, on: TaskListener): TaskSubscription {
  const path = `/api/tasks/${encodeURIComponent(task)}`;
  let last = after;
  let closed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retryMs = RETRY_MS;
  let source = open();

  function open(): EventSource {
    const stream = new EventSource(`${path}/entries?after=${last}`);
    stream.addEventListener('beat', () => on.alive());
    stream.addEventListener('head', ({ data }) => {
      on.alive();
      on.connection('live');
      on.head(JSON.parse(data as string) as StreamHead);
    });
    stream.onmessage = ({ data }) => {
      const entry = parseEntry(data as string);
      last = entry.seq;
      retryMs = RETRY_MS;
      on.alive();
      on.entry(entry);
    };
    stream.addEventListener('end', () => {
      stream.close();
      on.connection('ended');
    });
    stream.addEventListener('failure', ({ data }) => {
      stream.close();
      const failure = JSON.parse(data as string) as Failure;
      if (failure.retryable) return lost(failure.retryAfterMs);
      on.failed(new Error(failure.message));
      on.connection('failed');
    });
    stream.onerror = () => {
      if (stream.readyState === EventSource.CLOSED) lost();
      else on.connection('lost');
    };
    return stream;
  }

  /**
   * Reconnects after the delay that the server named, else with a delay that doubles until an entry
   * comes.
   */
  function lost(afterMs = retryMs): void {
    on.connection('lost');
    clearTimeout(timer);
    if (closed) return;
    timer = setTimeout(reconnect, afterMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  }

  /**
   * Reconnects after the browser gave up. An EventSource does not report the status of a refused
   * request, so this asks for it: the task may be missing, or the server not ready yet.
   */
  function reconnect(): void {
    fetch(path).then(
      ({ status }) => {
        if (closed) return;
        if (status === 404) on.connection('gone');
        else if (status === 401) on.failed(new SignInRequired());
        else source = open();
      },
      () => {
        if (!closed) lost();
      },
    );
  }

  return {
    close() {
      closed = true;
      clearTimeout(timer);
      source.close();
    },
  };
}
