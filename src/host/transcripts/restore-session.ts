import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { raceAbort, withTimeout } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Abortable } from '../../stream/types.ts';
import { encodeLine } from '../../wire/jsonl.ts';
import {
  isSubpath,
  projectKey,
  type SessionKey,
  type SessionStoreEntry,
  transcriptPath,
} from '../../wire/transcript.ts';
import { linkConfig } from './link-config.ts';
import type { SessionStore } from './session-store.ts';

export interface RestoreOptions extends Abortable {
  readonly cwd: string;
  readonly sessionId: string;
  readonly timeoutMs: number;
  /** The environment of the CLI, which names its configuration folder. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Writes a session of a store, with the parts of its subagents, to a private configuration folder,
 * where a CLI can resume it. Login and settings of the CLI are taken from its usual folder. Dispose
 * it afterwards.
 */
export async function restoreSession(
  store: SessionStore,
  { cwd, sessionId, timeoutMs, env, signal }: RestoreOptions,
): Promise<AsyncDisposable & { readonly configDir: string }> {
  // A process gets its working directory without links, and CLIs make the key of it.
  const key = { projectKey: projectKey(await realpath(cwd).catch(() => cwd)), sessionId };
  const late = (): DuolaneError =>
    new DuolaneError(
      'timeout',
      `load of the session store timed out after ${timeoutMs} ms: "${sessionId}"`,
    );
  const parts = await withTimeout(raceAbort(loadParts(store, key), signal), timeoutMs, late);
  if (!parts) {
    const message = `session "${sessionId}" of ${cwd} not found; the session store does not have it`;
    throw new DuolaneError('not_found', message);
  }
  const configDir = await mkdtemp(join(tmpdir(), 'duolane-resume-'));
  const remove = (): Promise<void> => rm(configDir, { recursive: true, force: true });
  try {
    await linkConfig(configDir, env);
    for (const [part, entries] of parts) {
      const path = transcriptPath(configDir, part);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, entries.map(encodeLine).join(''), { mode: 0o600 });
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return { configDir, [Symbol.asyncDispose]: disposeOnce(remove) };
}

/** A transcript, or the one of a subagent. */
export type SessionPart = readonly [key: SessionKey, entries: readonly SessionStoreEntry[]];

/** The main transcript and those of the subagents; undefined if the session does not exist. */
async function loadParts(store: SessionStore, key: SessionKey): Promise<SessionPart[] | undefined> {
  const main = await store.load(key);
  if (!main) return undefined;
  const parts: SessionPart[] = [[key, main]];
  for (const subpath of (await store.listSubkeys?.(key)) ?? []) {
    const part = { ...key, subpath };
    const entries = isSubpath(subpath) ? await store.load(part) : null;
    if (entries) parts.push([part, entries]);
  }
  return parts;
}
