import type { JsonObject } from '../../json.ts';

/** Where a transcript belongs: a project, a session, and a part of it (a subagent) if any. */
export interface SessionKey {
  readonly projectKey: string;
  readonly sessionId: string;
  readonly subpath?: string;
}

/** One line of a transcript. */
export type SessionStoreEntry = JsonObject & {
  readonly type?: string;
  readonly uuid?: string;
  readonly timestamp?: string;
};

/**
 * Where transcripts are mirrored to, as the CLI writes them. `append` is called in order, one call
 * at a time per session; a failing store never stops the session, it is told as `mirror_error`.
 */
export interface SessionStore {
  append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void>;
  /** null: unknown. */
  load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null>;
  listSessions?(
    projectKey: string,
  ): Promise<readonly { readonly sessionId: string; readonly mtime: number }[]>;
  delete?(key: SessionKey): Promise<void>;
  listSubkeys?(key: SessionKey): Promise<readonly string[]>;
}

/** A store that forgets with the process: for tests, and for a start. */
export class InMemorySessionStore implements SessionStore {
  readonly #sessions = new Map<
    string,
    { readonly key: SessionKey; readonly entries: SessionStoreEntry[]; mtime: number }
  >();

  /** How many transcripts it holds. */
  get size(): number {
    return this.#sessions.size;
  }

  /** What it holds of one, at once; none if it is unknown. */
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
