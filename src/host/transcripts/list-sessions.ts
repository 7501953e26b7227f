import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  configDirs,
  parseTranscript,
  projectDir,
  projectKey,
  type SessionStoreEntry,
} from '../../wire/transcript.ts';
import { omitUndefined } from '../../json.ts';
import { readArchived } from './archive-mark.ts';
import type { SessionStore } from './session-store.ts';
import {
  infoOf,
  messagesOf,
  type SDKSessionInfo,
  type SessionMessage,
} from './transcript-files.ts';

export interface SessionQuery {
  /**
   * The project's folder. Without it all projects on disk are read, or, of a store, the current
   * folder's.
   */
  readonly dir?: string;
  readonly limit?: number;
  readonly offset?: number;
  /** Reads from this store instead of the disk. */
  readonly sessionStore?: SessionStore;
}

/** A transcript in a folder or a store. */
export interface FoundSession {
  readonly sessionId: string;
  /** Its path; absent in a store. */
  readonly file?: string;
  readonly lastModified: number;
  readonly fileSize?: number;
  readonly load: () => Promise<readonly SessionStoreEntry[]>;
}

/** The sessions of a project, the latest first. Sessions without a prompt are left out. */
export async function listSessions(query: SessionQuery = {}): Promise<SDKSessionInfo[]> {
  const { limit = Infinity, offset = 0 } = query;
  const found = (await findSessions(query)).toSorted((a, b) => b.lastModified - a.lastModified);
  const infos: SDKSessionInfo[] = [];
  // Read one after the other: most callers want a few of many, and a transcript can be large.
  for (const each of found) {
    if (infos.length >= offset + limit) break;
    const info = await describe(each);
    if (info) infos.push(info);
  }
  return infos.slice(offset);
}

/** The description of one session; undefined if it does not exist. */
export async function getSessionInfo(
  sessionId: string,
  query: SessionQuery = {},
): Promise<SDKSessionInfo | undefined> {
  const found = (await findSessions(query)).find((each) => each.sessionId === sessionId);
  return found && describe(found);
}

/** The messages of a session, oldest first; empty if it does not exist. */
export async function getSessionMessages(
  sessionId: string,
  query: SessionQuery = {},
): Promise<SessionMessage[]> {
  const { limit = Infinity, offset = 0 } = query;
  const found = (await findSessions(query)).find((each) => each.sessionId === sessionId);
  return found ? messagesOf(await found.load()).slice(offset, offset + limit) : [];
}

async function describe(found: FoundSession): Promise<SDKSessionInfo | undefined> {
  const { sessionId, load, file, ...rest } = found;
  const archived = file === undefined ? undefined : await readArchived(file);
  return infoOf(sessionId, await load(), omitUndefined({ ...rest, archived }));
}

/** All sessions of a project, or of all projects. */
export async function findSessions({
  dir,
  sessionStore,
}: SessionQuery): Promise<readonly FoundSession[]> {
  if (sessionStore) return inStore(sessionStore, projectKey(dir ?? process.cwd()));
  const roots = configDirs(process.env);
  const projects = dir
    ? roots.map((root) => projectDir(root, projectKey(dir)))
    : (await Promise.all(roots.map((root) => entriesOf(join(root, 'projects'))))).flat();
  return (await Promise.all(projects.map(onDisk))).flat();
}

async function inStore(store: SessionStore, key: string): Promise<readonly FoundSession[]> {
  const listed = (await store.listSessions?.(key)) ?? [];
  return listed.map(({ sessionId, mtime }) => ({
    sessionId,
    lastModified: mtime,
    load: async () => (await store.load({ projectKey: key, sessionId })) ?? [],
  }));
}

async function onDisk(folder: string): Promise<readonly FoundSession[]> {
  const files = (await entriesOf(folder)).filter((file) =>
    /[\\/](?!agent-)[^\\/]+\.jsonl$/.test(file),
  );
  return Promise.all(
    files.map(async (file) => {
      const { mtimeMs, size } = await stat(file);
      const sessionId = file.slice(folder.length + 1, -'.jsonl'.length);
      const load = async (): Promise<SessionStoreEntry[]> =>
        parseTranscript(await readFile(file, 'utf8'));
      return { sessionId, file, lastModified: Math.floor(mtimeMs), fileSize: size, load };
    }),
  );
}

/** The full paths of a folder's entries; empty if the folder does not exist. */
async function entriesOf(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).map((name) => join(folder, name));
  } catch {
    // A folder that does not exist has no sessions.
    return [];
  }
}
