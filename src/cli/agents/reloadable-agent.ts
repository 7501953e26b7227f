import { watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import type { Agent } from '../../event/types.ts';
import { importAgent, type LoadedAgent } from './load-agent.ts';

/** How long a file must stay unchanged before it is loaded: editors write in several steps. */
const SETTLE_MS = 100;

/** Listeners for changes of the file. */
export interface ReloadEvents {
  readonly onReload: () => void;
  /** The changed file cannot be loaded; the last agent that could be loaded stays. */
  readonly onError: (error: DuolaneError) => void;
}

/** Creates an agent that follows its file. A run keeps the version with which it started. */
export function reloadable(
  { file, module }: LoadedAgent,
  signal: AbortSignal,
  { onReload, onError }: ReloadEvents,
): Agent {
  let current = module.default;
  let timer: NodeJS.Timeout | undefined;
  let seen = Date.now();
  const reload = async (): Promise<void> => {
    const { mtimeMs } = await stat(file);
    if (mtimeMs === seen) return; // one change causes several events
    seen = mtimeMs;
    current = (await importAgent(file, mtimeMs)).default;
    onReload();
  };
  // Watches the folder, since editors replace the file by a new one.
  const watcher = watch(dirname(file), { persistent: false, signal }, (_event, name) => {
    if (name !== null && name !== basename(file)) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      reload().catch((error: unknown) => onError(DuolaneError.from(error, 'invalid')));
    }, SETTLE_MS);
  });
  watcher.on('error', () => {}); // the file system cannot watch, so the agent stays as it is
  const agent: Agent = (turn, ctx) => current(turn, ctx);
  return Object.defineProperties(agent, {
    resumable: { get: () => current.resumable },
    continues: { get: () => current.continues },
  });
}
