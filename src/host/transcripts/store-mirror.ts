import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { keyOfPath, type SessionKey } from '../../wire/transcript.ts';
import type { SessionStore } from './session-store.ts';

/** The most entries that wait for the store. */
const MAX_WAITING = 10_000;

/**
 * Copies the transcript to a store, in order, one call at a time. A store that fails, or falls ten
 * thousand entries behind, loses entries, which is reported; it never delays the session.
 *
 * A `strict` mirror never stores an entry after one that was lost: from its first error on, it
 * stores nothing, and `flush` rejects.
 */
export class StoreMirror {
  readonly #store: SessionStore;
  readonly #strict: boolean;
  readonly #onError: (error: DuolaneError, key: SessionKey) => void;
  #failure: DuolaneError | undefined;
  #stopped = false;
  #waiting: { readonly key: SessionKey; readonly entries: readonly JsonObject[] }[] = [];
  #count = 0;
  #working: Promise<void> | undefined;

  constructor(
    store: SessionStore,
    onError: (error: DuolaneError, key: SessionKey) => void,
    { strict = false }: { readonly strict?: boolean } = {},
  ) {
    this.#store = store;
    this.#onError = onError;
    this.#strict = strict;
  }

  /** Takes no further entries: what the CLI writes from now on is not part of the session. */
  stop(): void {
    this.#stopped = true;
  }

  take({ filePath, entries }: JsonObject): void {
    const key = typeof filePath === 'string' ? keyOfPath(filePath) : undefined;
    if (!key || !Array.isArray(entries) || this.#stopped) return;
    const objects = entries.filter(isObject);
    if (this.#count > MAX_WAITING) {
      const message = `the session store is ${this.#count} entries behind; ${objects.length} entries are lost`;
      this.#failed(new DuolaneError('too_large', message), key);
      return;
    }
    if (objects.length === 0) return;
    this.#waiting.push({ key, entries: objects });
    this.#count += objects.length;
    this.#working ??= this.#work();
  }

  /** Resolves when the store has all entries. */
  async flush(): Promise<void> {
    await this.#working;
    if (this.#failure) throw this.#failure;
  }

  async #work(): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      try {
        if (!this.#failure) await this.#store.append(next.key, next.entries);
      } catch (error) {
        this.#failed(DuolaneError.from(error), next.key);
      }
      this.#count -= next.entries.length;
    }
    this.#working = undefined;
  }
  #failed(error: DuolaneError, key: SessionKey): void {
    if (this.#strict) this.#failure ??= error;
    this.#onError(error, key);
  }
}
