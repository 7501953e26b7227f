import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, omitUndefined } from '../../json.ts';
import {
  isSessionId,
  keyOfPath,
  parseTranscript,
  projectKey,
  type SessionKey,
  type SessionStoreEntry,
} from '../../wire/transcript.ts';
import { requireSession, type SessionMutationOptions } from './edit-session.ts';
import type { SessionQuery } from './list-sessions.ts';
import type { SessionStore } from './session-store.ts';
import type { SessionMessage } from './transcript-files.ts';

/** A part of a session: its path below the session, and its entries. */
interface Part {
  readonly subpath: string;
  readonly load: () => Promise<readonly SessionStoreEntry[]>;
}

const AGENT = /(?:^|\/)agent-([^/]+)$/;

/** The ids of a session's sub-agents. */
export async function listSubagents(
  sessionId: string,
  options: SessionMutationOptions = {},
): Promise<string[]> {
  const parts = await partsOf(sessionId, options);
  return parts.flatMap(({ subpath }) => AGENT.exec(subpath)?.[1] ?? []);
}

/** The messages of a sub-agent, oldest first; empty if the session has no such sub-agent. */
export async function getSubagentMessages(
  sessionId: string,
  agentId: string,
  query: SessionQuery = {},
): Promise<SessionMessage[]> {
  const { limit = Infinity, offset = 0 } = query;
  if (!isSessionId(agentId))
    throw new DuolaneError('invalid', `invalid agent id "${agentId}": expected no path separator`);
  const parts = await partsOf(sessionId, query);
  const part = parts.find(({ subpath }) => AGENT.exec(subpath)?.[1] === agentId);
  return part ? messagesIn(await part.load(), sessionId).slice(offset, offset + limit) : [];
}

const messagesIn = (entries: readonly SessionStoreEntry[], session_id: string): SessionMessage[] =>
  entries.flatMap(({ type, uuid = '', message, timestamp, ...rest }) => {
    if ((type !== 'user' && type !== 'assistant') || !isObject(message)) return [];
    if (rest['isMeta'] === true) return [];
    const parents = { parent_tool_use_id: null, parent_agent_id: null };
    return [
      omitUndefined<SessionMessage>({ type, uuid, session_id, message, ...parents, timestamp }),
    ];
  });

export interface ImportSessionToStoreOptions {
  /** The folder of the project; all projects by default. */
  readonly dir?: string;
  /** False leaves the sub-agents out. */
  readonly includeSubagents?: boolean;
}

/** Copies a session from disk to a store, sub-agents included. Import a session only once. */
export async function importSessionToStore(
  sessionId: string,
  store: SessionStore,
  { dir, includeSubagents = true }: ImportSessionToStoreOptions = {},
): Promise<void> {
  const options = dir === undefined ? {} : { dir };
  const { file = '', load } = await requireSession(sessionId, options);
  const key: SessionKey = {
    projectKey: keyOfPath(file)?.projectKey ?? projectKey(dir ?? process.cwd()),
    sessionId,
  };
  await store.append(key, await load());
  if (!includeSubagents) return;
  for (const part of await partsOf(sessionId, options))
    await store.append({ ...key, subpath: part.subpath }, await part.load());
}

async function partsOf(
  sessionId: string,
  options: SessionMutationOptions,
): Promise<readonly Part[]> {
  const { sessionStore } = options;
  if (sessionStore) {
    const key = { projectKey: projectKey(options.dir ?? process.cwd()), sessionId };
    return ((await sessionStore.listSubkeys?.(key)) ?? []).map((subpath) => ({
      subpath,
      load: async () => (await sessionStore.load({ ...key, subpath })) ?? [],
    }));
  }
  const { file = '' } = await requireSession(sessionId, options);
  const folder = file.slice(0, -'.jsonl'.length);
  // A session without sub-agents has no folder.
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  return names
    .filter((name) => name.endsWith('.jsonl'))
    .toSorted()
    .map((name) => ({
      subpath: name.slice(0, -'.jsonl'.length).replaceAll('\\', '/'),
      load: async () => parseTranscript(await readFile(join(folder, name), 'utf8')),
    }));
}
