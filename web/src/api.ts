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

/** The server wants to know who asks. */
export class SignInRequired extends Error {
  constructor() {
    super('You are signed out.');
  }
}

/** What the server refused, with its code. */
export class Refused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export const readSession = (): Promise<SessionHead> => json('/api/session');

/** Shows a secret once, in every way that the server may want it; from then on a cookie says who asks. */
export async function signIn(secret: string): Promise<void> {
  const { header } = await readSession();
  const { ok, status } = await ask('/api/session', {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, [header]: secret },
  });
  if (status === 401 || status === 403) throw new Error('The server does not know this secret.');
  if (!ok) throw new Error(`the server answered ${status}`);
}

export const signOut = async (): Promise<void> => {
  await ask('/api/session', { method: 'DELETE' });
};

/** As `fetch`, but what the browser says of a server that is not there is said in words. */
function ask(path: string, init?: RequestInit): Promise<Response> {
  return fetch(path, init).catch((cause: unknown) => {
    throw new Error('The server does not answer. Is it still running?', { cause });
  });
}

async function json<T>(path: string, body?: unknown): Promise<T> {
  const response = await ask(path, {
    ...(body !== undefined && {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  });
  if (response.status === 401) throw new SignInRequired();
  const value = (await response.json()) as T & { error?: { code?: string; message: string } };
  if (response.ok) return value;
  const { code = '', message = `the server answered ${response.status}` } = value.error ?? {};
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

/** Where the whole log of a task is, as JSON lines. */
export const tracePath = (task: string): string => `/api/tasks/${encodeURIComponent(task)}/trace`;

export async function fetchTrace(task: string): Promise<readonly Entry[]> {
  const response = await ask(tracePath(task));
  if (!response.ok) throw new Error(`the trace cannot be read: ${response.status}`);
  const text = await response.text();
  return text.split('\n').filter(Boolean).map(parseEntry);
}

export interface TaskSubscription {
  close(): void;
}

export interface Listener {
  /** Once per connection, before its entries. */
  head(head: StreamHead): void;
  entry(entry: Entry): void;
  line(state: 'live' | 'lost' | 'failed' | 'ended' | 'gone'): void;
  failed(error: Error): void;
}

const RETRY_MS = 1000;
const MAX_RETRY_MS = 15_000;

/**
 * Entries behind `after`, in order, each once, until the task has ended or `close`. A lost line is
 * taken up again behind the last entry that came, by the browser itself or, where it gives up, by
 * us. So is a stream that the server ended for a reason that passes; for any other reason it is
 * `failed`, and the person may reconnect.
 */
export function subscribeToTask(task: string, after: number, on: Listener): TaskSubscription {
  const path = `/api/tasks/${encodeURIComponent(task)}`;
  let last = after;
  let closed = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retryMs = RETRY_MS;
  let source = open();

  function open(): EventSource {
    const stream = new EventSource(`${path}/entries?after=${last}`);
    stream.addEventListener('head', ({ data }) => {
      on.line('live');
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
      on.line('ended');
    });
    stream.addEventListener('failure', ({ data }) => {
      stream.close();
      const failure = JSON.parse(data as string) as Failure;
      if (failure.retryable) return lost(failure.retryAfterMs);
      on.failed(new Error(failure.message));
      on.line('failed');
    });
    stream.onerror = () => {
      if (stream.readyState === EventSource.CLOSED) lost();
      else on.line('lost');
    };
    return stream;
  }

  /** Reconnects after the time that the server asked for, else later each time while nothing comes. */
  function lost(afterMs = retryMs): void {
    on.line('lost');
    clearTimeout(timer);
    if (closed) return;
    timer = setTimeout(again, afterMs);
    retryMs = Math.min(retryMs * 2, MAX_RETRY_MS);
  }

  /** The browser has given up, since the server refused: is the task not there, or the server not yet? */
  function again(): void {
    fetch(path).then(
      ({ status }) => {
        if (closed) return;
        if (status === 404) on.line('gone');
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

/** As `encodeEntry` wrote it: bytes are base64 under `$bytes`. */
function parseEntry(line: string): Entry {
  return JSON.parse(line, (_key, value: unknown) => {
    if (!isObject(value) || typeof value['$bytes'] !== 'string') return value;
    return Uint8Array.from(atob(value['$bytes']), (char) => char.charCodeAt(0));
  }) as Entry;
}
