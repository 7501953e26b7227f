import { raceAbort } from '../../stream/abort.ts';

/**
 * Reads the stream of a graph, and knows when everything that the graph has emitted was read. The
 * graph runs at the same time as its reader, so a checkpoint could be stored before its text and
 * calls are shown; after a crash they would be missing. So the checkpointer waits for `drained`.
 */
export class GraphStream {
  #waits = 0;
  #isWaiting = false;
  #onWait: (() => void)[] = [];

  async *read<T>(items: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
    const iterator = items[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await this.waiting(iterator.next());
        if (next.done) return;
        yield next.value;
      }
    } finally {
      await iterator.return?.();
    }
  }

  /** Settles like the promise. Until then, the reader has read what there was. */
  async waiting<T>(promise: Promise<T>): Promise<T> {
    this.#waits++;
    this.#isWaiting = true;
    for (const wake of this.#onWait.splice(0)) wake();
    try {
      return await promise;
    } finally {
      this.#isWaiting = false;
    }
  }

  /** Resolves when the reader has read everything that was emitted before this call. */
  async drained(signal: AbortSignal): Promise<void> {
    for (;;) {
      signal.throwIfAborted();
      const waits = this.#waits;
      if (!this.#isWaiting)
        await raceAbort(new Promise<void>((resolve) => this.#onWait.push(resolve)), signal);
      // Items reach the reader in microtasks: one that waits through a turn of the event loop has
      // read all of them.
      else {
        await new Promise((resolve) => setImmediate(resolve));
        if (this.#isWaiting && this.#waits === waits) return;
      }
    }
  }
}
