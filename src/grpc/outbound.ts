import type { Writable } from 'node:stream';
import { DuolaneError } from '../errors.ts';
import { UNREAD_MS, type Sending, type UnsentBytes } from '../http/unsent-bytes.ts';
import { encodeFrame } from './frames.ts';

/** A long message is written in pieces, so that the progress of a slow one is visible. */
const PIECE_BYTES = 64 * 1024;

/** Shorter messages are not counted in `unsent`: most are, and counting costs two closures. */
const COUNTED_BYTES = 16 * 1024;

/** When a message that does not fit into `unsent` is worth another try. */
const RETRY_AFTER_MS = 1000;

/** What happens if the peer stops reading. */
export interface GrpcStallOptions {
  /** How long the peer may read nothing of the data that waits for it. */
  readonly stallMs: number;
  /** Called with how long the peer has read nothing, at least. */
  readonly onStall: (ms: number) => void;
  /** What waits for all peers together. A message beyond its limit is refused with `overloaded`. */
  readonly unsent?: UnsentBytes;
  /** Whose call it is, on a server that authenticates callers. */
  readonly owner?: () => string | undefined;
}

/**
 * Writes messages as fast as the peer reads them. Nothing is buffered beyond the few kilobytes of
 * the stream: `send` returns a promise when that is full. With `stall`, a peer that reads nothing
 * of the waiting data is reported, also after the handler has finished.
 */
export class Outbound {
  readonly #stream: Writable;
  readonly #stall: GrpcStallOptions | undefined;
  #release: ((error?: unknown) => void) | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** The number of pieces that are not written yet. */
  #waiting = 0;
  #progressAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #onFlushed: (() => void) | undefined;
  /** Long messages that are not written completely. */
  readonly #sendings = new Set<Sending>();
  #admitted: Sending | undefined;
  readonly #written = (): void => {
    this.#waiting -= 1;
    if (this.#stall) this.#progressAt = performance.now();
    if (this.#waiting === 0) this.#onFlushed?.();
  };

  constructor(stream: Writable, stall?: GrpcStallOptions) {
    this.#stream = stream;
    this.#stall = stall;
  }

  /**
   * Sends a message. Returns `undefined` if the stream accepts more; otherwise a promise, which
   * rejects if the call ends meanwhile. Do not call it again before that settles.
   */
  send(message: Uint8Array): Promise<void> | undefined {
    if (this.#failure) return Promise.reject(this.#failure.error);
    const sending = this.#admitted;
    this.#admitted = undefined;
    if (this.#write(encodeFrame(message), sending)) return undefined;
    return new Promise((resolve, reject) => {
      const onDrain = (): void => this.#release?.();
      this.#release = (error) => {
        this.#release = undefined;
        this.#stream.off('drain', onDrain);
        if (this.#failure) reject(error);
        else resolve();
      };
      this.#stream.once('drain', onDrain);
    });
  }

  /**
   * Reserves room for the message that is sent next, if it is long. Throws `overloaded` if there is
   * none: call it before the headers, since a peer without a window gets no trailers after them.
   */
  admit(message: Uint8Array): void {
    const { unsent, owner } = this.#stall ?? {};
    if (!unsent || message.length <= COUNTED_BYTES) return;
    const sending = unsent.begin(message.length, () => this.#stall?.onStall(UNREAD_MS), owner?.());
    if (!sending) throw overloaded();
    this.#admitted = sending;
    this.#sendings.add(sending);
  }

  /** Resolves when all messages are written to the network, or the call is over. */
  async flushed(): Promise<void> {
    if (this.#waiting === 0 || this.#failure) return;
    await new Promise<void>((resolve) => (this.#onFlushed = resolve));
  }

  /** Ends the call: a pending `send` rejects with the error. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#release?.(error);
    this.#onFlushed?.();
  }

  /** Stops watching for a stall, because the stream is closed. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const sending of this.#sendings) sending.end();
    this.#sendings.clear();
  }

  #write(frame: Uint8Array, sending: Sending | undefined): boolean {
    if (this.#waiting === 0) this.#watch();
    let room = true;
    for (let at = 0; at < frame.length; at += PIECE_BYTES) {
      const piece = frame.subarray(at, at + PIECE_BYTES);
      const isLast = at + PIECE_BYTES >= frame.length;
      this.#waiting += 1;
      room = this.#stream.write(
        piece,
        sending ? () => this.#counted(isLast, sending) : this.#written,
      );
    }
    return room;
  }

  #counted(isLast: boolean, sending: Sending): void {
    sending.progress();
    if (isLast) {
      sending.end();
      this.#sendings.delete(sending);
    }
    this.#written();
  }

  // One timer that fires and checks the progress is cheaper than one timer per message.
  #watch(): void {
    if (!this.#stall || this.#closed) return;
    this.#progressAt = performance.now();
    this.#timer ??= setTimeout(this.#checkStall, this.#stall.stallMs).unref();
  }

  readonly #checkStall = (): void => {
    this.#timer = undefined;
    const stall = this.#stall;
    if (!stall || this.#closed || this.#waiting === 0) return;
    const remainingMs = this.#progressAt + stall.stallMs - performance.now();
    if (remainingMs > 0) this.#timer = setTimeout(this.#checkStall, Math.ceil(remainingMs)).unref();
    else stall.onStall(stall.stallMs);
  };
}

const overloaded = (): DuolaneError =>
  new DuolaneError(
    'overloaded',
    'cannot send the response: clients that do not read hold too much memory; try again',
    { retryAfterMs: RETRY_AFTER_MS },
  );
