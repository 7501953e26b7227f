import type { AgentContext, AgentStorage, Snapshot } from '../event/types.ts';
import type { SessionKey, SessionStore, SessionStoreEntry } from '../host/index.ts';
import { isObject } from '../json.ts';

const ROOT = 'cli';
const MAIN = 'main';
/** Enough digits for the order of keys to be the order of numbers. */
const DIGITS = 9;

/**
 * Keeps the transcripts of an agent CLI with the task, one value per entry under
 * `cli/<session>/<part>/<number>`. The project of a key is ignored: it is made from the working
 * directory, which differs between machines. A session that this task does not have is read from
 * the task of the same context that has it.
 */
export class TaskSessionStore implements SessionStore {
  readonly #storage: AgentStorage;
  readonly #history: AgentContext['history'];
  /** By prefix, the number of the next entry. */
  readonly #next = new Map<string, number>();

  constructor(storage: AgentStorage, history: AgentContext['history']) {
    this.#storage = storage;
    this.#history = history;
  }

  async append(key: SessionKey, entries: readonly SessionStoreEntry[]): Promise<void> {
    const prefix = prefixOf(key);
    let next = this.#next.get(prefix) ?? (await this.#count(prefix));
    const values: Record<string, unknown> = {};
    for (const entry of entries) values[`${prefix}${padded(next++)}`] = entry;
    // Set before the write, which may be done although it reports an error. A number that is
    // missing does no harm, one that is used twice loses an entry.
    this.#next.set(prefix, next);
    await this.#storage.set(values);
  }

  async load(key: SessionKey): Promise<readonly SessionStoreEntry[] | null> {
    const entries: SessionStoreEntry[] = [];
    for await (const [, entry] of this.#storage.list(prefixOf(key), await this.#ownerOf(key)))
      if (isObject(entry)) entries.push(entry);
    return entries.length > 0 ? entries : null;
  }

  async listSubkeys(key: SessionKey): Promise<readonly string[]> {
    const root = `${sessionPrefix(key)}sub/`;
    const found = new Set<string>();
    for await (const [name] of this.#storage.list(root, await this.#ownerOf(key)))
      found.add(decodeURIComponent(name.slice(root.length, name.lastIndexOf('/'))));
    return [...found];
  }

  /** Whether this task, or the given one, has the main transcript of the session. */
  async has(sessionId: string, task?: Pick<Snapshot, 'task'>): Promise<boolean> {
    for await (const _ of this.#storage.list(prefixOf({ sessionId }), task)) return true;
    return false;
  }

  /** The earlier task that has the session; undefined for a session of this task. */
  async #ownerOf({ sessionId }: Pick<SessionKey, 'sessionId'>): Promise<Snapshot | undefined> {
    if (await this.has(sessionId)) return undefined;
    for await (const earlier of this.#history())
      if (earlier.sessionId === sessionId && (await this.has(sessionId, earlier))) return earlier;
    return undefined;
  }

  async #count(prefix: string): Promise<number> {
    let last = -1;
    for await (const [name] of this.#storage.list(prefix)) last = Number(name.slice(prefix.length));
    return last + 1;
  }
}

const padded = (number: number): string => String(number).padStart(DIGITS, '0');

const sessionPrefix = ({ sessionId }: Pick<SessionKey, 'sessionId'>): string =>
  `${ROOT}/${encodeURIComponent(sessionId)}/`;

const prefixOf = ({ sessionId, subpath }: Omit<SessionKey, 'projectKey'>): string =>
  `${sessionPrefix({ sessionId })}${subpath === undefined ? MAIN : `sub/${encodeURIComponent(subpath)}`}/`;
