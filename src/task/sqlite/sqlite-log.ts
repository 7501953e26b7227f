import { resolve } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import { openOwnLog } from '../log/task-log.ts';
import { type StartThread, threadStore } from './thread-store.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export interface SqliteLogOptions extends LogOptions {
  /** The database. It is created with its folder. Beside it are `-wal`, `-shm` and `-lock`. */
  readonly file: string;
}

/**
 * Opens a log in one SQLite file. kill -9 and power loss lose nothing that was acknowledged. The
 * database runs on its own thread, so a slow disk does not block the event loop, and all writes
 * that wait during a commit are the next commit.
 *
 * One process may open a file: a second one is refused with `conflict`, which names the first. A
 * process may have any number of readers, runners and servers. After a restart, the runs of the
 * process before can be claimed immediately.
 *
 * @example
 * ```ts
 * await using log = await sqliteLog({ file: 'tasks.db' });
 * await using runner = createRunner({ log, agents: { echo } });
 * ```
 */
export async function sqliteLog({ file, ...options }: SqliteLogOptions): Promise<TaskLog> {
  return openOwnLog(await sqliteDatabase(file), options);
}

/** Opens the store of `sqliteLog`, for several logs over one file in one process. */
export function sqliteDatabase(file: string): Promise<Store> {
  return threadStore(sqliteThread(file));
}

/** Starts the thread that opens the file. */
export const sqliteThread =
  (file: string): StartThread =>
  (again) => {
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker(new URL(WORKER, import.meta.url), {
      workerData: { port: port2, file: resolve(file), again },
      transferList: [port2],
    });
    return { worker, port: port1 };
  };

const WORKER = import.meta.url.endsWith('.ts') ? './worker.source.mjs' : './worker.js';
