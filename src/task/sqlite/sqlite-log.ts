import { resolve } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import { openLog } from '../log/task-log.ts';
import { type StartThread, threadStore } from './thread-store.ts';
import type { Store } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export interface SqliteLogOptions extends LogOptions {
  /** The database; made with its folder if it is not there. Beside it: `-wal`, `-shm` and `-lock`. */
  readonly file: string;
}

/**
 * A log in one SQLite file. Nothing that was acknowledged is lost by kill -9 or power loss. The
 * database is on a thread of its own, so a slow disk does not hold up the event loop, and everything
 * that waits while a commit runs goes into the next one.
 *
 * One process per file: a second one is refused with `conflict`, naming the first. Its readers,
 * runners and servers may be as many as you like. What another process left running is claimable at
 * once after a restart.
 */
export async function sqliteLog({ file, ...options }: SqliteLogOptions): Promise<TaskLog> {
  return openLog(await sqliteDatabase(file), options);
}

/** The store of `sqliteLog`, for several logs over one file in one process. */
export function sqliteDatabase(file: string): Promise<Store> {
  return threadStore(sqliteThread(file));
}

/** Starts the thread that has the file. */
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
