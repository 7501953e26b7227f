import type { Ask } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import type { Frame } from '../event/types.ts';
import { onAbort, raceAbort } from '../stream/abort.ts';

/**
 * The open questions of a session. The CLI may cancel a question, but its exit does not. The
 * control lane overtakes the message lane, so a question waits until the run has yielded its call,
 * or all frames that have arrived. Otherwise a run that is suspended by the question would not have
 * in its log the call that it must finish later.
 */
export class CliQuestions {
  readonly #ask: Ask;
  /** Questions that were not asked yet, with the call that asks. */
  readonly #early = new Map<() => void, string | undefined>();
  #waiting = false;
  open = 0;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** The run has yielded this call. */
  callYielded(callId: string | undefined): void {
    for (const [start, asker] of this.#early)
      if (asker !== undefined && asker === callId) this.#start(start);
  }

  /** Passes the frames on, and asks the waiting questions when no frame is ready or they fail. */
  async *between(frames: AsyncIterable<Frame>): AsyncGenerator<Frame, void, undefined> {
    const iterator = frames[Symbol.asyncIterator]();
    try {
      for (;;) {
        this.#waiting = true;
        if (this.#early.size > 0) setImmediate(this.#whenWaiting);
        const { done, value } = await iterator.next();
        this.#waiting = false;
        if (done) return;
        yield value;
      }
    } catch (error) {
      this.#startAll();
      throw error;
    } finally {
      await iterator.return?.();
    }
  }

  readonly ask: Ask = (request, { signal } = {}) =>
    new Promise((resolve, reject) => {
      const canceled = new AbortController();
      let unlisten = (): void => {};
      const start = (): void => {
        this.open += 1;
        // An async function, because an `ask` of the app may throw, or return without a promise.
        (async () => this.#ask(request, { signal: canceled.signal }))()
          .finally(() => {
            this.open -= 1;
            unlisten();
          })
          .then(resolve, reject);
      };
      this.#early.set(start, request.callId);
      unlisten = onAbort(signal, (reason) => {
        // After an exit the answer cannot be delivered to the session, so do not make it wait.
        if (isExit(reason)) return reject(reason);
        canceled.abort(reason);
        if (this.#early.delete(start)) reject(reason);
      });
      setImmediate(this.#whenWaiting);
    });

  /**
   * Resolves when the run has yielded the call, or all frames that have arrived. A tool that is
   * called before could have its result in the transcript of a call that no reader has seen.
   */
  shown(callId: string, signal: AbortSignal): Promise<void> {
    const yielded = new Promise<void>((resolve) => this.#early.set(resolve, callId));
    setImmediate(this.#whenWaiting);
    return raceAbort(yielded, signal);
  }

  // Frames that have arrived are read in microtasks. If `between` still waits here, it has yielded
  // all.
  readonly #whenWaiting = (): void => {
    if (this.#waiting) this.#startAll();
  };

  #startAll(): void {
    for (const start of this.#early.keys()) this.#start(start);
  }

  #start(start: () => void): void {
    this.#early.delete(start);
    start();
  }
}

/** Whether the CLI exited, or its response was lost. */
export const isExit = (reason: unknown): boolean =>
  reason instanceof DuolaneError &&
  (reason.code === 'peer_exited' || reason.code === 'response_lost');
