import type { Writable } from 'node:stream';
import { encodeFrame } from './frames.ts';

/**
 * Writes messages as fast as the peer reads them. Nothing is kept beyond the stream's own buffer of
 * some kilobytes: `send` gives a promise when that is full.
 */
export class Outbound {
  readonly #stream: Writable;
  #release: ((error?: unknown) => void) | undefined;
  #failure: { readonly error: unknown } | undefined;
  /** Messages that are not out yet. */
  #waiting = 0;
  #onFlushed: (() => void) | undefined;
  readonly #written = (): void => {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#onFlushed?.();
  };

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** `undefined` where there is room for more. Rejects if the call ends meanwhile; one at a time. */
  send(message: Uint8Array): Promise<void> | undefined {
    if (this.#failure) return Promise.reject(this.#failure.error);
    this.#waiting += 1;
    if (this.#stream.write(encodeFrame(message), this.#written)) return undefined;
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
}
