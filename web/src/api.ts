import type { Answer } from '../../src/ask.ts';
import type { Failure } from '../../src/errors.ts';
import type { Entry } from '../../src/event/types.ts';
import { isObject } from '../../src/json.ts';
import type {
  AgentCardLite,
  ReplicaRow,
  SessionHead,
  StreamHead,
  TaskRow,
} from '../../src/serve/page-api-types.ts';

export type { AgentCardLite, ReplicaRow, SessionHead, StreamHead, TaskRow };

/** The server requires authentication, and this browser is not signed in. */
export class SignInRequired extends Error {
  constructor() {
    super('Sign in to continue.');
  }
}

/** A request that the server refused, with the error code. */
export class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export const readSession = (): Promise<SessionHead> => json('/api/session');

/**
 * Exchanges a token or key for a session cookie. The page does not know which of the two the server
 * takes, so it sends the secret in both headers.
 */
export async function signIn(secret: string): Promise<void> {
  const { header } = await readSession();
  const { ok, status } = await request('/api/session', {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, [header]: secret },
  });
  if (status === 401 || status === 403) throw new Error('Invalid token or key.');
  if (!ok) throw new Error(`The server returned status ${status}.`);
}

export const signOut = async (): Promise<void> => {
  await request('/api/session', { method: 'DELETE' });
};

/** Like `fetch`, but replaces the browser's "Failed to fetch" by a message with a fix. */
function request(path: string, init?: RequestInit): Promise<Response> {
  return fetch(path, init).catch((cause: unknown) => {
    throw new Error('Cannot reach the server. Check that it is running.', { cause });
  });
}

async function json<T>(path: string, body?: unknown): Promise<T> {
  const response = await request(path, {
    ...(body !== undefined && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  if (response.status === 401) throw new SignInRequired();
  const value = (await response.json()) as T & { error?: { code?: string; message: string } };
  if (response.ok) return value;
  const { code = '', message = `The server returned status ${response.status}.` } =
    value.error ?? {};
  throw new Refused(code, message);
}

export const listAgents = async (): Promise<readonly AgentCardLite[]> =>
  (await json<{ agents: AgentCardLite[] }>('/api/agents')).agents;

export const fetchTasks = async (): Promise<readonly TaskRow[]> =>
  (await json<{ tasks: TaskRow[] }>('/api/tasks')).tasks;

export const listReplicas = async (): Promise<readonly ReplicaRow[]> =>
  (await json<{ replicas: ReplicaRow[] }>('/api/replicas')).replicas;

export const startTask = (
  agent: string,
  input: { readonly text: string } | { readonly data: unknown },
): Promise<{ task: string }> => json(`/api/agents/${encodeURIComponent(agent)}/turns`, input);

export const sendAnswer = (task: string, answer: Answer): Promise<unknown> =>
  json(`/api/tasks/${encodeURIComponent(task)}/turns`, { answers: [answer] });

export const cancelTask = (task: string): Promise<unknown> =>
  json(`/api/tasks/${encodeURIComponent(task)}/cancel`, {});

/** The path of the complete log of a task, as JSON lines. */
export const tracePath = (task: string): string => `/api/tasks/${encodeURIComponent(task)}/trace`;

export async function fetchTrace(task: string): Promise<readonly Entry[]> {
  const response = await request(tracePath(task));
  if (!response.ok)
    throw new Error(`Cannot read the trace: the server returned status ${response.status}.`);
  const text = await response.text();
  return text.split('\n').filter(Boolean).map(parseEntry);
}

export interface TaskSubscription {
  close(): void;
}

export interface TaskListener {
  /** Called once per connection, before its entries. */
  head(head: StreamHead): void;
  entry(entry: Entry): void;
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
    stream.addEventListener('head', ({ data }) => {
      on.connection('live');
      on.head(JSON.parse(data as string) as StreamHead);
    });
    stream.onmessage = ({ data }) => {
      const entry = parseEntry(data as string);
      last = entry.seq;
      retryMs = RETRY_MS;
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

/** Parses a line of `encodeEntry`, which writes bytes as base64 under `$bytes`. */
function parseEntry(line: string): Entry {
  return JSON.parse(line, (_key, value: unknown) => {
    if (!isObject(value) || typeof value['$bytes'] !== 'string') return value;
    return Uint8Array.from(atob(value['$bytes']), (char) => char.charCodeAt(0));
  }) as Entry;
}
