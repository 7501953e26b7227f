import { resolve } from 'node:path';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import { DuolaneError, type Failure } from '../errors.ts';
import { openLog } from './log.ts';
import type { Call, Outcome } from './sqlite-engine.ts';
import { type Commit, type Store, storeCalls, type StoreMethods } from './store.ts';
import type { LogOptions, TaskLog } from './types.ts';

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
export async function sqliteDatabase(file: string): Promise<Store> {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker(new URL(WORKER, import.meta.url), {
    workerData: { port: port2, file: resolve(file) },
    transferList: [port2],
  });
  const store = new WorkerStore(worker, port1);
  try {
    await store.opened;
  } catch (error) {
    // Only when the thread has ended is the file free for whoever tries next.
    await store.store[Symbol.asyncDispose]();
    throw error;
  }
  return store.store;
}

const WORKER = import.meta.url.endsWith('.ts')
  ? './sqlite-worker.source.mjs'
  : './sqlite-worker.js';

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

class WorkerStore {
  readonly store: Store;
  readonly opened: Promise<void>;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, Waiting>();
  readonly #listeners = new Set<(commit: Commit) => void>();
  #outbox: Call[] = [];
  #ids = 0;
  #end: DuolaneError | undefined;

  constructor(worker: Worker, port: MessagePort) {
    this.#worker = worker;
    this.#port = port;
    // The port keeps the process alive while somebody waits for an answer, the idle worker does not.
    worker.unref();
    this.opened = new Promise((resolve, reject) =>
      this.#wait(0, { resolve: () => resolve(), reject }),
    );
    port.on('message', (message: 'ready' | { failure: Failure } | Outcome) =>
      this.#receive(message),
    );
    worker.on('error', (error) => this.#fail(DuolaneError.from(error, 'server')));
    worker.on('exit', () => this.#fail(new DuolaneError('server', 'the store thread has stopped')));
    this.store = {
      ...storeCalls((method, args) => this.#call(method, args)),
      announcesAll: true,
      onCommit: (listener) => {
        this.#listeners.add(listener);
        return () => void this.#listeners.delete(listener);
      },
      [Symbol.asyncDispose]: () => this.#close(),
    };
  }

  #call(method: keyof StoreMethods, args: readonly unknown[]): Promise<unknown> {
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      this.#wait(id, { resolve, reject });
      // Whatever is called in this tick travels as one message.
      if (this.#outbox.push({ id, method, args }) === 1) queueMicrotask(() => this.#flush());
    });
  }

  #flush(): void {
    const calls = this.#outbox;
    if (calls.length === 0) return;
    this.#outbox = [];
    this.#port.postMessage(calls);
  }

  #wait(id: number, waiting: Waiting): void {
    if (this.#waiting.size === 0) this.#port.ref();
    this.#waiting.set(id, waiting);
  }

  #receive(message: 'ready' | { failure: Failure } | Outcome): void {
    if (message === 'ready') return this.#settle(0)?.resolve(undefined);
    if ('failure' in message) return this.#fail(revive(message.failure));
    for (const commit of message.commits) for (const listener of this.#listeners) listener(commit);
    for (const reply of message.replies) {
      const waiting = this.#settle(reply.id);
      if ('failure' in reply) waiting?.reject(revive(reply.failure));
      else waiting?.resolve(reply.value);
    }
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#port.unref();
    return waiting;
  }

  #fail(error: DuolaneError): void {
    this.#end ??= error;
    for (const id of this.#waiting.keys()) this.#settle(id)?.reject(this.#end);
    this.#port.close();
  }

  // What was called before is still done and answered; the thread then closes the file.
  async #close(): Promise<void> {
    if (!this.#end) {
      this.#end = new DuolaneError('closed', 'the log was closed');
      this.#flush();
      this.#port.postMessage('close');
    }
    this.#worker.ref();
    if (this.#worker.threadId !== -1)
      await new Promise((resolve) => this.#worker.once('exit', resolve));
  }
}

const revive = ({ code, message, ...options }: Failure): DuolaneError =>
  new DuolaneError(code, message, options);
