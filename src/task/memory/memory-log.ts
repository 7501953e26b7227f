import { StoreRules } from '../store/store-rules.ts';
import { openLog } from '../log/task-log.ts';
import { MemoryStorage } from './memory-storage.ts';
import { addListener } from '../../stream/cancellable-generator.ts';
import { notifyAll } from '../process-warnings.ts';
import { type Commit, callStoreMethod, type Store, storeFromCalls } from '../store/store.ts';
import type { LogOptions, TaskLog } from '../types.ts';

export interface MemoryDatabaseOptions {
  /**
   * How many ended tasks are kept. Beyond it, the one that ended first is deleted with its blobs.
   */
  readonly keepEnded?: number;
}

/** Creates a store in memory that several logs of one process can share, as replicas do. */
export function memoryDatabase({ keepEnded = 1000 }: MemoryDatabaseOptions = {}): Store {
  const evictListeners = new Set<(task: string) => void>();
  const storage = new MemoryStorage(keepEnded, (task) => notifyAll(evictListeners, task));
  const rules = new StoreRules(storage);
  const listeners = new Set<(commit: Commit) => void>();
  const calls = storeFromCalls(async (method, args) => {
    const result = callStoreMethod(rules, method, args);
    for (const commit of rules.takeCommits()) notifyAll(listeners, commit);
    return result;
  });
  return {
    ...calls,
    announcesAll: true,
    exclusive: true,
    onCommit: (listener) => addListener(listeners, listener),
    onEvict: (listener) => addListener(evictListeners, listener),
    async [Symbol.asyncDispose]() {},
  };
}

export interface MemoryLogOptions extends LogOptions, MemoryDatabaseOptions {
  /** A store that other logs share; a new one by default. */
  readonly database?: Store;
}

/**
 * Opens a log that lives as long as its process, for development, tests and runs without a server.
 *
 * @example
 * ```ts
 * await using log = memoryLog();
 * ```
 */
export function memoryLog({ database, keepEnded, ...options }: MemoryLogOptions = {}): TaskLog {
  return openLog(database ?? memoryDatabase(keepEnded === undefined ? {} : { keepEnded }), options);
}
