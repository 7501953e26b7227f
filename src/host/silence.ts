/**
 * Calls back when something has been silent for too long. `heard` costs an assignment, not a timer:
 * the one timer looks at the time of the last sound when it fires. While `counts` is false, the
 * silence is not counted. The timer does not keep the process alive.
 */
export class Silence {
  readonly #afterMs: number;
  readonly #counts: () => boolean;
  readonly #onSilence: (silentMs: number) => void;
  #last = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(afterMs: number, counts: () => boolean, onSilence: (silentMs: number) => void) {
    this.#afterMs = afterMs;
    this.#counts = counts;
    this.#onSilence = onSilence;
  }

  start(): void {
    this.heard(Date.now());
    this.#arm(this.#afterMs);
  }

  heard(at: number): void {
    this.#last = at;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(ms: number): void {
    this.stop();
    this.#timer = setTimeout(() => this.#look(), ms).unref();
  }

  #look(): void {
    const now = Date.now();
    if (!this.#counts()) this.#last = now;
    const silent = now - this.#last;
    if (silent < this.#afterMs) return this.#arm(this.#afterMs - silent);
    this.#timer = undefined;
    this.#onSilence(silent);
  }
}
