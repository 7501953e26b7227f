import { DuolaneError } from '../errors.ts';

/** Whether the peer still takes input, and the one wait for room that all writers share. */
export class WriteGate {
  #closed: DuolaneError | undefined;
  #waiting: { readonly promise: Promise<void>; settle(error?: Error): void } | undefined;

  /** Throws what `close` was given. */
  check(): void {
    if (this.#closed) throw this.#closed;
  }

  /** Resolves at once or, if the pipe is full, at the next `open`; rejects once closed. */
  drained(full: boolean): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (!full) return Promise.resolve();
    if (!this.#waiting) {
      let settle: (error?: Error) => void = () => {};
      const promise = new Promise<void>((resolve, reject) => {
        settle = (error) => (error ? reject(error) : resolve());
      });
      promise.catch(() => {}); // told to whoever waits; a caller that stopped waiting is no failure
      this.#waiting = { promise, settle };
    }
    return this.#waiting.promise;
  }

  open(): void {
    this.#waiting?.settle();
    this.#waiting = undefined;
  }

  /** For good; the first reason counts. */
  close(why: string, cause?: unknown): void {
    this.#closed ??= new DuolaneError('closed', why, { cause });
    this.#waiting?.settle(this.#closed);
    this.#waiting = undefined;
  }
}
