import type { Writable } from 'node:stream';
import { encodeFrame } from './frames.ts';

/** A long message is written in pieces, so that the progress of a slow one is visible. */
const PIECE_BYTES = 64 * 1024;

/** What happens if the peer stops reading. */
export interface GrpcStallOptions {
  /** How long the peer may read nothing of the data that waits for it. */
  readonly stallMs: number;
  readonly onStall: () => void;
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
    if (this.#write(encodeFrame(message))) return undefined;
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
  }

  #write(frame: Uint8Array): boolean {
    if (this.#waiting === 0) this.#watch();
    let room = true;
    for (let at = 0; at < frame.length; at += PIECE_BYTES) {
      this.#waiting += 1;
      room = this.#stream.write(frame.subarray(at, at + PIECE_BYTES), this.#written);
    }
    return room;
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
    else stall.onStall();
  };
}
