interface ScheduledCall {
  readonly call: () => Promise<void>;
  readonly parallel: boolean;
}

/**
 * Schedules the tool calls of one model message. Read-only calls start immediately and run in
 * parallel, even while the message is still streamed. Every other call waits until the message is
 * complete (`release`) and all earlier calls are done, and later calls wait for it. If the message
 * is withdrawn for a retry, its waiting calls are dropped (`drop`).
 */
export class Schedule {
  readonly #running = new Set<Promise<void>>();
  #waiting: ScheduledCall[] = [];
  #exclusive: Promise<void> | undefined;
  #released = false;
  #started = 0;

  /** The number of calls that have started. A message with such a call must not be retried. */
  get started(): number {
    return this.#started;
  }

  /** Adds a call, which must not reject. */
  add(call: () => Promise<void>, { parallel }: { readonly parallel: boolean }): void {
    if (!this.#released && (!parallel || this.#waiting.length > 0))
      this.#waiting.push({ call, parallel });
    else this.#start({ call, parallel });
  }

  release(): void {
    this.#released = true;
    for (const entry of this.#waiting.splice(0)) this.#start(entry);
  }

  drop(): void {
    this.#waiting = [];
  }

  /** Resolves when every released call has ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #start({ call, parallel }: ScheduledCall): void {
    const begin = (): Promise<void> => {
      this.#started++;
      return call();
    };
    // A call that waits for no other starts in this tick.
    const before = parallel
      ? this.#exclusive
      : this.#running.size > 0 && Promise.all(this.#running);
    const done: Promise<void> = (before ? before.then(begin) : begin()).finally(() => {
      this.#running.delete(done);
      if (this.#exclusive === done) this.#exclusive = undefined;
    });
    this.#running.add(done);
    if (!parallel) this.#exclusive = done;
  }
}
