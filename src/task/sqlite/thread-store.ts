import { type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { DuolaneError, errorMessage, type Failure } from '../../errors.ts';
import { addListener } from '../../stream/cancellable-generator.ts';
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

/** Starts a thread that opens the database. `again`: this process had it open before. */
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
/** How a call that is not an append counts: it is small, or limited by the number of reads. */
const CALL_CHARS = 1024;

/**
 * Opens a store on a thread. Rejects if the database cannot be opened. A thread that crashes later
 * is started again: calls that it had received reject with `server`, since they may be stored or
 * not; later calls wait for the next thread; and listeners of `onGap` are called, since commits may
 * have gone unannounced. After five crashes in a minute the store is given up, and every call
 * rejects with `closed`.
 */
export async function threadStore(start: StartThread): Promise<Store> {
  const thread = new ThreadStore(start);
  try {
    await thread.opened;
  } catch (error) {
    // The file is free for the next process only when the thread has ended.
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
  /** The thread has not replied to the last message. */
  #busy = false;
  #ids = 0;
  #crashes: number[] = [];
  #restart: NodeJS.Timeout | undefined;
  /** How much text one message may bring to the thread, and how many long replies may come back. */
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
      onCommit: (listener) => addListener(this.#listeners, listener),
      onGap: (listener) => addListener(this.#gapListeners, listener),
      [Symbol.asyncDispose]: disposeOnce(() => this.#close()),
    };
  }

  #run(again: boolean): void {
    const { worker, port } = this.#start(again);
    this.#worker = worker;
    this.#port = port;
    let reason: unknown;
    const onMessage = (message: ThreadMessage): void => {
      if (typeof message === 'object' && 'failure' in message) reason = revive(message.failure);
      else this.#receive(message);
    };
    port.on('message', onMessage);
    worker.on('error', (error) => (reason ??= error));
    // A reply could not be deserialized, so its caller would wait forever. Treat it as a crash.
    port.on('messageerror', (error) => {
      reason ??= error;
      worker.terminate().catch(reportUnexpected);
    });
    this.#gone = new Promise((resolve) =>
      worker.once('exit', () => {
        // The exit may overtake the last messages: a reply, or why the file cannot be opened.
        for (let last = receiveMessageOnPort(port); last; last = receiveMessageOnPort(port))
          onMessage(last.message as ThreadMessage);
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
      // All calls of this turn of the event loop, or made while the thread works, are one message
      // and one commit. Sent sooner, the first call would be a commit of its own that the others
      // wait for.
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
   * Returns as many calls as one message may have; the others stay in the outbox. A thousand long
   * replies in one message would be more than a small heap has, here and in the thread. Writes keep
   * their order.
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

  /** Sends calls. If one cannot be cloned it is refused, and each of the others is sent alone. */
  #post(calls: readonly ThreadCall[]): void {
    try {
      this.#port?.postMessage(packCalls(calls));
      this.#busy = true;
    } catch (cause) {
      if (calls.length > 1) return calls.forEach((call) => this.#post([call]));
      const [{ id, method }] = calls as [ThreadCall];
      const message = `cannot store the arguments of ${method}: ${errorMessage(cause)}; pass plain JSON`;
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
    // Later in this turn, together with the calls that these replies cause.
    if (this.#outbox.length > 0) setImmediate(() => this.#flush());
    if (this.#waiting.size === 0) this.#port?.unref();
  }

  #opened(): void {
    this.#ready = true;
    this.#flush();
    // From now on the port keeps the process alive while a call waits for its reply; an idle thread
    // does not.
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
      reason ?? new DuolaneError('server', 'the store thread has stopped; try again'),
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
          `the store thread crashed ${length} times in a minute and is given up (${error.message}); check the disk, then restart`,
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

  // Calls made before are still done and replied to; the thread then closes the file.
  async #close(): Promise<void> {
    clearTimeout(this.#restart);
    if (!this.#end) {
      this.#busy = false; // send the waiting calls now
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

const revive = ({ code, message, ...options }: Failure): DuolaneError =>
  new DuolaneError(code, message, options);
