import type { Answer } from '../../../src/ask.ts';
import type { Entry } from '../../../src/event/types.ts';
import { isObject } from '../../../src/json.ts';
import type {
  AgentCardLite,
  ReplicaRow,
  SessionHead,
  StreamHead,
  TaskRow,
  ToolServerLite,
} from '../../../src/serve/page-api-types.ts';

export type { AgentCardLite, ReplicaRow, SessionHead, StreamHead, TaskRow, ToolServerLite };

/** What a server has: its agents, and its tool servers if the page may show them. */
export interface ServerHead {
  readonly agents: readonly AgentCardLite[];
  readonly tools: readonly ToolServerLite[];
}

/** Which runs a list shows. Everything is optional, and everything that is given must match. */
export interface RunFilter {
  readonly agent?: string;
  readonly state?: string;
  readonly context?: string;
  readonly q?: string;
}

/** One list page of runs. */
export interface RunPage {
  readonly tasks: readonly TaskRow[];
  /** Where the next list page begins; missing on the last one. */
  readonly after?: string;
  /** With a search: how many runs it looked at. */
  readonly scanned?: number;
}

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

export const readServer = (): Promise<ServerHead> => json('/api/agents');

/** One list page of runs that match the filter, newest change first. */
export const fetchRuns = (filter: RunFilter, after?: string, limit = 50): Promise<RunPage> => {
  const query = new URLSearchParams({ limit: String(limit), ...filter });
  if (after !== undefined) query.set('after', after);
  return json<RunPage>(`/api/tasks?${query}`);
};

export const listReplicas = async (): Promise<readonly ReplicaRow[]> =>
  (await json<{ replicas: ReplicaRow[] }>('/api/replicas')).replicas;

export const startTask = (
  agent: string,
  input: { readonly text: string } | { readonly data: unknown },
): Promise<{ task: string }> => json(`/api/agents/${encodeURIComponent(agent)}/turns`, input);

/** Sends a further message in the conversation of a task, as a new task. */
export const replyTo = (
  { agent, context }: Pick<TaskRow, 'agent' | 'context'>,
  text: string,
): Promise<{ task: string }> =>
  json(`/api/agents/${encodeURIComponent(agent)}/turns`, { text, context });

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

/** Parses a line of `encodeEntry`, which writes bytes as base64 under `$bytes`. */
export function parseEntry(line: string): Entry {
  return JSON.parse(line, (_key, value: unknown) => {
    if (!isObject(value) || typeof value['$bytes'] !== 'string') return value;
    return Uint8Array.from(atob(value['$bytes']), (char) => char.charCodeAt(0));
  }) as Entry;
}
