import { watch } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import type { Agent } from '../../event/types.ts';
import { importAgent, type LoadedAgent } from './load-agent.ts';

const SETTLE_MS = 100;

export interface ReloadEvents {
  readonly onReload: () => void;
  /** The file cannot be loaded as it is now; the last good agent stays. */
  readonly onError: (error: DuolaneError) => void;
}

/** An agent that is always the one in the file; a run keeps the one that it began with. */
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
    if (mtimeMs === seen) return; // several events tell of one change
    seen = mtimeMs;
    current = (await importAgent(file, mtimeMs)).default;
    onReload();
  };
  // The folder, since editors put a new file in the place of the old one.
  const watcher = watch(dirname(file), { persistent: false, signal }, (_event, name) => {
    if (name !== null && name !== basename(file)) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      reload().catch((error: unknown) => onError(DuolaneError.from(error, 'invalid')));
    }, SETTLE_MS);
  });
  watcher.on('error', () => {}); // a file system that cannot watch: the agent stays as it is
  const agent: Agent = (turn, ctx) => current(turn, ctx);
  return Object.defineProperties(agent, {
    resumable: { get: () => current.resumable },
    continues: { get: () => current.continues },
  });
}
