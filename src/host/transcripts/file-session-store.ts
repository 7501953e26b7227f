import { appendFile, mkdir, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { encodeLine } from '../../wire/jsonl.ts';
import { parseTranscript, type SessionKey, type SessionStoreEntry } from '../../wire/transcript.ts';
import type { SessionStore } from './session-store.ts';

export interface FileSessionStoreOptions {
  /** The folder of the transcripts, created if it is missing, such as a network file system. */
  readonly directory: string;
}

/**
 * Keeps transcripts in a folder that several machines may share: one file per transcript, readable
 * only by its owner. Only one process may write a session at the same time.
 *
 * @example
 * ```ts
 * const sessionStore = fileSessionStore({ directory: 'sessions' });
 * for await (const message of query({ prompt: 'Hello', options: { sessionStore } }))
 *   console.log(message.type);
 * ```
 */
export function fileSessionStore({ directory }: FileSessionStoreOptions): SessionStore {
  return new FileSessionStore(resolve(directory));
}

const LINES = '.jsonl';

class FileSessionStore implements SessionStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void> {
    const path = this.#path(key);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    // One write, so that a crash leaves at most half a line, which `parseTranscript` skips.
    await appendFile(path, entries.map(encodeLine).join(''), { mode: 0o600, flush: true });
  }

  async load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null> {
    const text = await orMissing(readFile(this.#path(key), 'utf8'));
    return text === undefined ? null : parseTranscript(text);
  }

  async listSessions(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]> {
    const folder = join(this.#directory, fileName(projectKey));
    const names = (await orMissing(readdir(folder))) ?? [];
    const found = names
      .filter((name) => name.endsWith(LINES))
      .map(async (name) => {
        // A session that is deleted meanwhile is not listed.
        const file = await orMissing(stat(join(folder, name)));
        const sessionId = decodeURIComponent(name.slice(0, -LINES.length));
        return file ? [{ sessionId, mtime: Math.floor(file.mtimeMs) }] : [];
      });
    return (await Promise.all(found)).flat();
  }

  async delete(key: SessionKey): Promise<void> {
    await rm(this.#path(key), { force: true });
    if (key.subpath === undefined) await rm(this.#folder(key), { recursive: true, force: true });
  }

  async listSubkeys(key: SessionKey): Promise<readonly string[]> {
    const names = (await orMissing(readdir(this.#folder(key)))) ?? [];
    return names.map((name) => decodeURIComponent(name.slice(0, -LINES.length)));
  }

  /** The folder of the parts of a session, beside its main transcript. */
  #folder({ projectKey, sessionId }: SessionKey): string {
    return join(this.#directory, fileName(projectKey), fileName(sessionId));
  }

  #path(key: SessionKey): string {
    const folder = this.#folder(key);
    return key.subpath === undefined
      ? `${folder}${LINES}`
      : join(folder, `${fileName(key.subpath)}${LINES}`);
  }
}

/** A file name for any text: without separators, and never `.` or `..`. */
const fileName = (text: string): string => encodeURIComponent(text).replaceAll('.', '%2E');

/** The result, or undefined if the file or folder does not exist. */
async function orMissing<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
