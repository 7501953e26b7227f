interface ScheduledCall {
  readonly call: () => Promise<void>;
  readonly parallel: boolean;
}

/**
 * The order of the calls of one answer. Calls that only read start at once and overlap, also while
 * the answer still streams. Every other call is held until the answer is complete (`release`) and
 * all calls before it are done; all calls behind it wait for it. An answer that is withdrawn takes
 * its held calls along (`drop`).
 */
export class Schedule {
  readonly #running = new Set<Promise<void>>();
  #held: ScheduledCall[] = [];
  #exclusive: Promise<void> | undefined;
  #released = false;
  #started = 0;

  /** Calls that have begun: an answer with one of these cannot be asked for again. */
  get started(): number {
    return this.#started;
  }

  /** `call` must not reject. */
  add(call: () => Promise<void>, { parallel }: { readonly parallel: boolean }): void {
    if (!this.#released && (!parallel || this.#held.length > 0))
      this.#held.push({ call, parallel });
    else this.#start({ call, parallel });
  }

  release(): void {
    this.#released = true;
    for (const entry of this.#held.splice(0)) this.#start(entry);
  }

  drop(): void {
    this.#held = [];
  }

  /** Resolves when every call that was let go has ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #start({ call, parallel }: ScheduledCall): void {
    const begin = (): Promise<void> => {
      this.#started++;
      return call();
    };
    // A call that nothing holds back starts in this tick.
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
