import { spawn } from 'node:child_process';
import {
  AbortError,
  getSessionInfo,
  getSessionMessages,
  InMemorySessionStore,
  listSessions,
  query,
  type SDKSessionInfo,
  type SessionKey,
  type SessionMessage,
  type SessionStore,
  type SessionStoreEntry,
  type SpawnedProcess,
  type SpawnOptions,
  startup,
  type WarmQuery,
} from '@anthropic-ai/claude-agent-sdk';
import { show } from './show.ts';

class OwnStore implements SessionStore {
  readonly #entries = new Map<string, SessionStoreEntry[]>();

  async append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    const known = this.#entries.get(key.sessionId) ?? [];
    this.#entries.set(key.sessionId, [...known, ...entries.filter(({ type }) => type !== 'x')]);
  }

  async load({ sessionId, subpath }: SessionKey): Promise<SessionStoreEntry[] | null> {
    return subpath === undefined ? (this.#entries.get(sessionId) ?? null) : null;
  }

  async listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    return [...this.#entries.keys()].map((sessionId) => ({ sessionId, mtime: projectKey.length }));
  }

  async delete(key: SessionKey): Promise<void> {
    this.#entries.delete(key.sessionId);
  }
}

export async function upkeep(): Promise<void> {
  const sessions: SDKSessionInfo[] = await listSessions({ dir: '/x', limit: 10 });
  for (const { sessionId, summary, lastModified, createdAt, tag, ...rest } of sessions) {
    show(sessionId, summary.length, new Date(lastModified), new Date(createdAt ?? 0), tag);
    show(rest.customTitle, rest.firstPrompt, rest.gitBranch, rest.cwd, rest.fileSize);
  }
  const info: SDKSessionInfo | undefined = await getSessionInfo('id', { dir: '/x' });
  const messages: SessionMessage[] = await getSessionMessages('id', { limit: 5, offset: 1 });
  for (const { type, uuid, session_id, message } of messages) show(type, uuid, session_id, message);
  const memory = new InMemorySessionStore();
  show(memory.size, memory.getEntries({ projectKey: 'p', sessionId: 's' }).length);
  memory.clear();
  if (info) await resumed(info.sessionId, new OwnStore());
}

const inContainer = ({ command, args, cwd, env, signal }: SpawnOptions): SpawnedProcess =>
  spawn(command, args, { cwd, env, signal, stdio: ['pipe', 'pipe', 'inherit'] });

async function resumed(resume: string, sessionStore: SessionStore): Promise<void> {
  const abortController = new AbortController();
  const options = { abortController, resume, sessionStore, spawnClaudeCodeProcess: inContainer };
  try {
    await using run = query({ prompt: 'go on', options });
    const { value, done } = await run.next();
    if (!done) show(value.type);
  } catch (error) {
    if (!(error instanceof AbortError)) throw error;
    show(error.message);
  }
}

export async function warm(): Promise<void> {
  const ready: WarmQuery = await startup({ options: { maxTurns: 1 }, initializeTimeoutMs: 1000 });
  for await (const message of ready.query('x'))
    if (message.type === 'result') show(message.subtype);
  ready.close();
}
