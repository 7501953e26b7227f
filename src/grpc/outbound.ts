import type { Writable } from 'node:stream';
import { encodeFrame } from './frames.ts';

/** A long message goes out in pieces, so that one which takes long shows its progress. */
const PIECE_BYTES = 64 * 1024;

export interface GrpcStallOptions {
  /** How long the peer may take nothing of what waits for it. */
  readonly stallMs: number;
  readonly onStall: () => void;
}

/**
 * Writes messages as fast as the peer reads them. Nothing is kept beyond the stream's own buffer of
 * some kilobytes: `send` gives a promise when that is full. With `stall`, a peer that reads nothing
 * of what waits for it is reported, also when the handler has finished.
 */
export class Outbound {
  readonly #stream: Writable;
  readonly #stall: GrpcStallOptions | undefined;
  #release: ((error?: unknown) => void) | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Pieces that are not out yet. */
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

  /** `undefined` where there is room for more. Rejects if the call ends meanwhile; one at a time. */
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

  /** Resolves when all messages have gone out to the network, or the call is over. */
  async flushed(): Promise<void> {
    if (this.#waiting === 0 || this.#failure) return;
    await new Promise<void>((resolve) => (this.#onFlushed = resolve));
  }

  /** The call is over: whoever waits for room is told why. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    this.#release?.(error);
    this.#onFlushed?.();
  }

  /** The stream is closed: nothing is watched any more. */
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

  // The timer runs out and looks what has happened: that is cheaper than one for each message.
  #watch(): void {
    if (!this.#stall || this.#closed) return;
    this.#progressAt = performance.now();
    this.#timer ??= setTimeout(this.#look, this.#stall.stallMs).unref();
  }

  readonly #look = (): void => {
    this.#timer = undefined;
    const stall = this.#stall;
    if (!stall || this.#closed || this.#waiting === 0) return;
    const leftMs = this.#progressAt + stall.stallMs - performance.now();
    if (leftMs > 0) this.#timer = setTimeout(this.#look, Math.ceil(leftMs)).unref();
    else stall.onStall();
  };
}
