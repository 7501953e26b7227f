import type { MessagePort, Worker } from 'node:worker_threads';
import { DuolaneError, type Failure } from '../../errors.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import { notifyAll } from '../process-warnings.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { type ThreadCall, packCalls, type PackedDone, unpackDone } from './thread-protocol.ts';
import { heapShare } from '../text-budget.ts';
import {
  type AppendRequest,
  type Commit,
  STORE_METHODS,
  type Store,
  storeFromCalls,
  type StoreMethods,
} from '../store/store.ts';

/** A thread that has begun to open the database. `again`: this process had it open before. */
export type StartThread = (again: boolean) => {
  readonly worker: Worker;
  readonly port: MessagePort;
};

type ThreadMessage = 'ready' | { readonly failure: Failure } | PackedDone;

interface Waiting {
  readonly call?: ThreadCall;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const MAX_CRASHES = 5;
const CRASH_WINDOW_MS = 60_000;
const RESTART_MS = 50;
/** What is not an append is small, or is counted as one of the reads. */
const CALL_CHARS = 1024;

/**
 * A store on a thread. Rejects if the database cannot be opened. A thread that crashes later is
 * started again: what it was asked rejects with `server`, for it may be stored or not, what was
 * asked since waits for the next one, and listeners of `onGap` are told that they may have missed a
 * commit. One that crashes five times in a minute is given up, and every call rejects with `closed`.
 */
export async function threadStore(start: StartThread): Promise<Store> {
  const thread = new ThreadStore(start);
  try {
    await thread.opened;
  } catch (error) {
    // Only when the thread has ended is the file free for whoever tries next.
    await thread.store[Symbol.asyncDispose]();
    throw error;
  }
  return thread.store;
}

class ThreadStore {
  readonly store: Store;
  readonly opened: Promise<void>;
  readonly #start: StartThread;
  readonly #waiting = new ReleasingMap<number, Waiting>();
  readonly #listeners = new Set<(commit: Commit) => void>();
  readonly #gapListeners = new Set<() => void>();
  #worker: Worker | undefined;
  #port: MessagePort | undefined;
  #ready = false;
  #settleOpened: Waiting | undefined;
  #outbox: ThreadCall[] = [];
  /** The thread has a message that it has not answered. */
  #busy = false;
  #ids = 0;
  #crashes: number[] = [];
  #restart: NodeJS.Timeout | undefined;
  /** How much one message may bring to the thread, and how many answers that may be long come back. */
  readonly #maxChars = heapShare();
  readonly #maxReads = Math.max(4, Math.min(256, this.#maxChars >> 20));
  #end: DuolaneError | undefined;
  #gone: Promise<void> = Promise.resolve();

  constructor(start: StartThread) {
    this.#start = start;
    this.opened = new Promise((resolve, reject) => {
      this.#settleOpened = { resolve: () => resolve(), reject };
    });
    this.#run(false);
    this.store = {
      ...storeFromCalls((method, args) => this.#call(method, args)),
      announcesAll: true,
      exclusive: true,
      onCommit: (listener) => listen(this.#listeners, listener),
      onGap: (listener) => listen(this.#gapListeners, listener),
      [Symbol.asyncDispose]: disposeOnce(() => this.#close()),
    };
  }

  #run(again: boolean): void {
    const { worker, port } = this.#start(again);
    this.#worker = worker;
    this.#port = port;
    let reason: unknown;
    port.on('message', (message: ThreadMessage) => {
      if (typeof message === 'object' && 'failure' in message) reason = revive(message.failure);
      else this.#receive(message);
    });
    worker.on('error', (error) => (reason ??= error));
    // An answer is lost, and with it who waits: as good as a crash.
    port.on('messageerror', (error) => {
      reason ??= error;
      worker.terminate().catch(reportUnexpected);
    });
    this.#gone = new Promise((resolve) =>
      worker.once('exit', () => {
        this.#exited(reason);
        resolve();
      }),
    );
  }

  #call(method: keyof StoreMethods, args: readonly unknown[]): Promise<unknown> {
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      if (this.#waiting.size === 0) this.#port?.ref();
      const call: ThreadCall = { id, method, args };
      this.#waiting.set(id, { call, resolve, reject });
      // Whatever is called in this turn of the loop, or while the thread works, travels as one message and is one
      // commit: sent sooner, the first call would have a commit of its own, and all others wait for it.
      if (this.#outbox.push(call) === 1) setImmediate(() => this.#flush());
    });
  }

  #flush(isLast = false): void {
    const calls = this.#outbox;
    if (calls.length === 0 || !this.#ready || this.#busy) return;
    this.#outbox = [];
    this.#post(isLast ? calls : this.#shareOf(calls));
  }

  /**
   * As many calls as one message should have; the others wait in the outbox. A thousand long answers
   * in one message would be more than a small heap holds, here and in the thread. Writes keep their
   * order.
   */
  #shareOf(calls: readonly ThreadCall[]): readonly ThreadCall[] {
    let chars = 0;
    let reads = 0;
    const share: ThreadCall[] = [];
    for (const call of calls) {
      const isRead = STORE_METHODS[call.method] === 'read';
      if (isRead) reads++;
      else chars += sizeOf(call);
      const fits = isRead ? reads <= this.#maxReads : chars <= this.#maxChars;
      if (fits || share.length === 0) share.push(call);
      else this.#outbox.push(call);
    }
    return share;
  }

  /** What cannot travel is refused; then each of the others goes alone. */
  #post(calls: readonly ThreadCall[]): void {
    try {
      this.#port?.postMessage(packCalls(calls));
      this.#busy = true;
    } catch (cause) {
      if (calls.length > 1) return calls.forEach((call) => this.#post([call]));
      const [{ id, method }] = calls as [ThreadCall];
      const message = `${method} was given what cannot be stored; give it plain JSON`;
      this.#waiting.take(id)?.reject(new DuolaneError('invalid', message, { cause }));
      if (this.#waiting.size === 0) this.#port?.unref();
    }
  }

  #receive(message: 'ready' | PackedDone): void {
    if (message === 'ready') return this.#opened();
    this.#busy = false;
    const done = unpackDone(message, (id) => this.#waiting.get(id)?.call);
    for (const { reply, commits } of done) {
      for (const commit of commits) notifyAll(this.#listeners, commit);
      if ('again' in reply) {
        const { call } = this.#waiting.get(reply.id) ?? {};
        if (call) this.#outbox.push(call);
        continue;
      }
      const waiting = this.#waiting.take(reply.id);
      if ('failure' in reply) waiting?.reject(revive(reply.failure));
      else waiting?.resolve(reply.value);
    }
    // Together with what this answer makes others call.
    if (this.#outbox.length > 0) setImmediate(() => this.#flush());
    if (this.#waiting.size === 0) this.#port?.unref();
  }

  #opened(): void {
    this.#ready = true;
    this.#flush();
    // Once it is open, the port keeps the process alive while somebody waits for an answer, and an
    // idle thread does not.
    this.#worker?.unref();
    if (this.#waiting.size === 0) this.#port?.unref();
    if (!this.#settleOpened) notifyAll(this.#gapListeners, undefined);
    this.#settleOpened?.resolve(undefined);
    this.#settleOpened = undefined;
  }

  #exited(reason: unknown): void {
    this.#ready = false;
    this.#busy = false;
    this.#port?.close();
    this.#port = this.#worker = undefined;
    const unsent = new Set(this.#outbox.map(({ id }) => id));
    const error = DuolaneError.from(
      reason ?? new DuolaneError('server', 'the store thread has stopped; ask again'),
      'server',
    );
    for (const id of this.#waiting.keys())
      if (this.#end || !unsent.has(id)) this.#waiting.take(id)?.reject(this.#end ?? error);
    if (this.#end) return;
    if (this.#settleOpened) return this.#giveUp(error);
    const now = Date.now();
    this.#crashes = [...this.#crashes.filter((at) => now - at < CRASH_WINDOW_MS), now];
    const { length } = this.#crashes;
    if (length >= MAX_CRASHES)
      return this.#giveUp(
        new DuolaneError(
          'closed',
          `the store thread crashed ${length} times in a minute and is given up (${error.message}); look at the disk, then restart`,
          { cause: error },
        ),
      );
    this.#restart = setTimeout(() => this.#run(true), RESTART_MS * 2 ** (length - 1));
  }

  #giveUp(error: DuolaneError): void {
    this.#end = error;
    this.#outbox = [];
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    this.#settleOpened?.reject(error);
    notifyAll(this.#gapListeners, undefined);
  }

  // What was called before is still done and answered; the thread then closes the file.
  async #close(): Promise<void> {
    clearTimeout(this.#restart);
    if (!this.#end) {
      this.#busy = false; // what waits for its turn has it now
      this.#flush(true);
      this.#end = new DuolaneError('closed', 'the log was closed');
      this.#port?.postMessage('close');
      if (!this.#worker) this.#giveUp(this.#end);
    }
    this.#worker?.ref();
    await this.#gone;
  }
}

function sizeOf({ method, args }: ThreadCall): number {
  if (method !== 'append') return CALL_CHARS;
  let chars = 0;
  for (const line of (args[0] as AppendRequest).events) chars += line.length;
  return chars;
}

function listen<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const revive = ({ code, message, ...options }: Failure): DuolaneError =>
  new DuolaneError(code, message, options);
