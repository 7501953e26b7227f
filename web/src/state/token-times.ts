/**
 * When text arrived, and how much of it. Both lists grow only, so that the density of any range is
 * two binary searches, also for 100,000 deltas.
 */
export class TokenTimes {
  readonly #times: number[] = [];
  /** The characters up to and including each delta. */
  readonly #totals: number[] = [];

  get count(): number {
    return this.#times.length;
  }

  /** A clock that was set back must not break the order, so a time is at least the one before. */
  add(at: number, chars: number): void {
    this.#times.push(Math.max(at, this.#times.at(-1) ?? at));
    this.#totals.push((this.#totals.at(-1) ?? 0) + chars);
  }

  /** The characters that arrived from `from` (inclusive) to `to` (exclusive). */
  between(from: number, to: number): number {
    return this.#before(to) - this.#before(from);
  }

  #before(time: number): number {
    let low = 0;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#times[middle] as number) < time) low = middle + 1;
      else high = middle;
    }
    return this.#totals[low - 1] ?? 0;
  }
}
