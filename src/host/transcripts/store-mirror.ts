import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { raceAbort, withTimeout } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { encodeLine } from '../../wire/jsonl.ts';
import { keyOfPath, projectKey, type SessionKey, transcriptPath } from '../../wire/transcript.ts';
import type { SessionStore } from './session-store.ts';

/** The most entries that wait for the store. */
const MAX_WAITING = 10_000;

/**
 * Copies the transcript to a store, in order, one call at a time. A store that fails, or falls ten
 * thousand entries behind, loses entries, which is reported; it never delays the session.
 */
export class StoreMirror {
  readonly #store: SessionStore;
  readonly #onError: (error: DuolaneError, key: SessionKey) => void;
  #waiting: { readonly key: SessionKey; readonly entries: readonly JsonObject[] }[] = [];
  #count = 0;
  #working: Promise<void> | undefined;

  constructor(store: SessionStore, onError: (error: DuolaneError, key: SessionKey) => void) {
    this.#store = store;
    this.#onError = onError;
  }

  take({ filePath, entries }: JsonObject): void {
    const key = typeof filePath === 'string' ? keyOfPath(filePath) : undefined;
    if (!key || !Array.isArray(entries)) return;
    const objects = entries.filter(isObject);
    if (this.#count > MAX_WAITING) {
      const message = `the session store is ${this.#count} entries behind; ${objects.length} entries are lost`;
      this.#onError(new DuolaneError('too_large', message), key);
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
  }

  async #work(): Promise<void> {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      try {
        await this.#store.append(next.key, next.entries);
      } catch (error) {
        this.#onError(DuolaneError.from(error), next.key);
      }
      this.#count -= next.entries.length;
    }
    this.#working = undefined;
  }
}

/**
 * Writes a session of a store to a temporary configuration folder, where a CLI can resume it.
 * Dispose it afterwards.
 */
export async function restoreTranscript(
  store: SessionStore,
  {
    cwd,
    sessionId,
    timeoutMs,
    signal,
  }: Abortable & { readonly cwd: string; readonly sessionId: string; readonly timeoutMs: number },
): Promise<AsyncDisposable & { readonly configDir: string }> {
  const key = { projectKey: projectKey(cwd), sessionId };
  const late = (): DuolaneError =>
    new DuolaneError(
      'timeout',
      `load of the session store timed out after ${timeoutMs} ms: "${sessionId}"`,
    );
  const entries = await withTimeout(raceAbort(store.load(key), signal), timeoutMs, late);
  if (!entries) {
    const message = `session "${sessionId}" of ${cwd} not found; the session store does not have it`;
    throw new DuolaneError('not_found', message);
  }
  const configDir = await mkdtemp(join(tmpdir(), 'duolane-resume-'));
  const remove = (): Promise<void> => rm(configDir, { recursive: true, force: true });
  try {
    const path = transcriptPath(configDir, key);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, entries.map(encodeLine).join(''), { mode: 0o600 });
  } catch (error) {
    await remove();
    throw error;
  }
  return { configDir, [Symbol.asyncDispose]: disposeOnce(remove) };
}
