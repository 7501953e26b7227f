import { DuolaneError } from '../errors.ts';

/** Tracks whether the peer still reads, and the one wait for a full pipe that all writers share. */
export class WriteGate {
  #closed: DuolaneError | undefined;
  #waiting: { readonly promise: Promise<void>; settle(error?: Error): void } | undefined;

  /** Throws the reason given to `close`. */
  check(): void {
    if (this.#closed) throw this.#closed;
  }

  /**
   * Resolves immediately, or at the next `open` if the pipe is full; rejects once the gate is
   * closed.
   */
  drained(full: boolean): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed);
    if (!full) return Promise.resolve();
    if (!this.#waiting) {
      let settle: (error?: Error) => void = () => {};
      const promise = new Promise<void>((resolve, reject) => {
        settle = (error) => (error ? reject(error) : resolve());
      });
      // Waiting callers get the error; without one it must not be an unhandled rejection.
      promise.catch(() => {});
      this.#waiting = { promise, settle };
    }
    return this.#waiting.promise;
  }

  /** Resolves the shared wait, because the pipe accepts more. */
  open(): void {
    this.#waiting?.settle();
    this.#waiting = undefined;
  }

  /** Closes the gate permanently; the first reason counts. */
  close(why: string, cause?: unknown): void {
    this.#closed ??= new DuolaneError('closed', why, { cause });
    this.#waiting?.settle(this.#closed);
    this.#waiting = undefined;
  }
}
