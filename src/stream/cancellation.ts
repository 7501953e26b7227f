import { DuolaneError, type ErrorCode } from '../errors.ts';
import { onAbort } from './abort.ts';
import type { Abortable } from './types.ts';

/**
 * An AbortController that creates its `AbortSignal` on first access: most work is never cancelled,
 * and the signal is the most expensive part of a short call.
 *
 * Only the first abort counts. Listeners run synchronously, in the order of their registration, and
 * once; a listener that is added after the abort runs immediately. `signal` is a getter of the
 * class: pass on the object itself, because a copy has no `signal`.
 */
export class Cancellation implements Abortable {
  #controller: AbortController | undefined;
  #listeners: ((reason: unknown) => void)[] | undefined;
  #aborted = false;
  #reason: unknown;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  /** Whether it has aborted for this reason. */
  isAbortedBy(code: ErrorCode): boolean {
    return this.#aborted && DuolaneError.from(this.#reason).code === code;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
    const listeners = this.#listeners;
    this.#listeners = undefined;
    for (const run of listeners ?? []) run(reason);
  }

  /** Adds a listener. Returns a function that removes it. */
  onAbort(run: (reason: unknown) => void): () => void {
    if (this.#aborted) {
      run(this.#reason);
      return () => {};
    }
    if (this.#listeners) this.#listeners.push(run);
    else this.#listeners = [run];
    return () => {
      this.#listeners = this.#listeners?.filter((each) => each !== run);
    };
  }

  /**
   * Aborts when the given signal or Cancellation aborts. Returns a function that stops following
   * it.
   */
  follow(options: Abortable | undefined): () => void {
    return whenAborted(options, (reason) => this.abort(reason));
  }
}

/** `onAbort` for any `Abortable`. For a Cancellation it does not create the `AbortSignal`. */
export const whenAborted = (
  options: Abortable | undefined,
  run: (reason: unknown) => void,
): (() => void) =>
  options instanceof Cancellation ? options.onAbort(run) : onAbort(options?.signal, run);
