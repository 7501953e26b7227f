import type { SessionKey, SessionStoreEntry } from '../../wire/transcript.ts';

/**
 * A place to copy transcripts to while the CLI writes them. `append` is called in order, one call
 * at a time per session. An error of the store never ends the session; the message `mirror_error`
 * reports it.
 */
export interface SessionStore {
  append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void>;
  /** The entries of a transcript; null if it does not exist. */
  load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null>;
  listSessions?(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]>;
  delete?(key: SessionKey): Promise<void>;
  listSubkeys?(key: SessionKey): Promise<readonly string[]>;
}

/** A store in memory, for tests and first steps. */
export class InMemorySessionStore implements SessionStore {
  readonly #sessions = new Map<
    string,
    { readonly key: SessionKey; readonly entries: SessionStoreEntry[]; mtime: number }
  >();

  /** The number of transcripts. */
  get size(): number {
    return this.#sessions.size;
  }

  /** The entries of a transcript, synchronously; empty if it does not exist. */
  getEntries(key: SessionKey): SessionStoreEntry[] {
    return [...(this.#sessions.get(idOf(key))?.entries ?? [])];
  }

  clear(): void {
    this.#sessions.clear();
  }

  async append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void> {
    const id = idOf(key);
    const known = this.#sessions.get(id) ?? { key, entries: [], mtime: 0 };
    known.entries.push(...entries);
    known.mtime = Date.now();
    this.#sessions.set(id, known);
  }

  async load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null> {
    const known = this.#sessions.get(idOf(key));
    return known ? [...known.entries] : null;
  }

  async listSessions(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]> {
    return [...this.#sessions.values()]
      .filter(({ key }) => key.projectKey === projectKey && key.subpath === undefined)
      .map(({ key, mtime }) => ({ sessionId: key.sessionId, mtime }));
  }

  async delete(key: SessionKey): Promise<void> {
    this.#sessions.delete(idOf(key));
  }

  async listSubkeys(key: SessionKey): Promise<readonly string[]> {
    return [...this.#sessions.values()]
      .filter((each) => sameSession(each.key, key))
      .flatMap((each) => each.key.subpath ?? []);
  }
}

const idOf = (key: SessionKey): string =>
  JSON.stringify([key.projectKey, key.sessionId, key.subpath ?? null]);

const sameSession = (a: SessionKey, b: SessionKey): boolean =>
  a.projectKey === b.projectKey && a.sessionId === b.sessionId;
