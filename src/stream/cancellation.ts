import { onAbort } from './abort.ts';
import type { Abortable } from './types.ts';

/**
 * An AbortController that costs next to nothing until somebody looks at its `signal`: most work ends
 * without anybody cancelling it, and a signal is by far the dearest part of a short call.
 *
 * The first abort counts. Listeners run at once, in their order, and only once; one that comes later
 * runs at once. `signal` is a getter of the class: hand on the object itself, not a copy of it.
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

  /** Returns what stops listening. */
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

  /** Aborts with what somebody was given to be cancelled by; returns what stops following. */
  follow(options: Abortable | undefined): () => void {
    return whenAborted(options, (reason) => this.abort(reason));
  }
}

/** `onAbort` of whatever somebody was given to be cancelled by; a Cancellation keeps its cheapness. */
export const whenAborted = (
  options: Abortable | undefined,
  run: (reason: unknown) => void,
): (() => void) =>
  options instanceof Cancellation ? options.onAbort(run) : onAbort(options?.signal, run);
