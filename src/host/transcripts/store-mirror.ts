import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { encodeLine } from '../../wire/jsonl.ts';
import type { SessionKey, SessionStore } from './session-store.ts';
import { keyOfPath, projectKey, transcriptPath } from './transcript-files.ts';

const WAITING = 10_000;

/**
 * Hands the transcript on to a store, in order, one call at a time. A store that fails or falls ten
 * thousand entries behind loses entries, which is told; it never holds up the session.
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
    if (this.#count > WAITING) {
      const message = `the session store is ${this.#count} entries behind; ${objects.length} are lost`;
      this.#onError(new DuolaneError('too_large', message), key);
      return;
    }
    if (objects.length === 0) return;
    this.#waiting.push({ key, entries: objects });
    this.#count += objects.length;
    this.#working ??= this.#work();
  }

  /** Resolves when the store has all that came. */
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

/** A configuration folder that holds one session, for a CLI to resume it from; dispose it afterwards. */
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
  const late = new DuolaneError(
    'timeout',
    `the session store did not load ${sessionId} in ${timeoutMs} ms`,
  );
  let timer: NodeJS.Timeout | undefined;
  let unlisten = (): void => {};
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late), timeoutMs);
    unlisten = onAbort(signal, reject);
  });
  const entries = await Promise.race([store.load(key), limit]).finally(() => {
    clearTimeout(timer);
    unlisten();
  });
  if (!entries)
    throw new DuolaneError('not_found', `the session store has no session ${sessionId} of ${cwd}`);
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
