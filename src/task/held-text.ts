import { getHeapStatistics } from 'node:v8';
import { DuolaneError } from '../errors.ts';
import type { AgentEvent, Part, Snapshot } from '../event/types.ts';
import type { Cancellation } from '../stream/cancellation.ts';

/** What V8 sets aside for new objects; the heap limit includes it, and long-lived text is not kept there. */
const YOUNG_BYTES = 48 << 20;

/** A sixteenth of what this process or thread may have on its heap: a text is held several times. */
export function heapShare(): number {
  const limit = getHeapStatistics().heap_size_limit;
  return Math.floor(Math.max(limit / 2, limit - YOUNG_BYTES) / 16);
}

/** How much an event adds to what is held of its run, in characters. */
export function heldBy(event: AgentEvent): number {
  switch (event.type) {
    case 'text.delta':
    case 'reasoning.delta':
      return event.delta.length;
    case 'artifact':
      return partsChars(event.parts);
    default:
      return 0;
  }
}

/** Roughly what the lines of events take while they are written, in characters. */
export function writtenBy(events: readonly AgentEvent[]): number {
  let chars = 0;
  for (const event of events) {
    if ('delta' in event) chars += event.delta.length;
    else if (event.type === 'artifact') chars += partsChars(event.parts);
    // Its text becomes one string for the first time, and then a line.
    else if ('text' in event && typeof event.text === 'string') chars += 2 * event.text.length;
    chars += 256;
  }
  return chars;
}

/** Roughly what a snapshot takes, in characters. */
export function snapshotChars({ text, artifacts, turns, said = [] }: Snapshot): number {
  let chars = 1024 + text.length;
  for (const { parts } of artifacts) chars += partsChars(parts);
  for (const { parts } of turns) chars += partsChars(parts);
  for (const each of said) chars += each.text.length;
  return chars;
}

/** Roughly: data has no length of its own, and an entry has its limit. */
export function partsChars(parts: readonly Part[]): number {
  let chars = 0;
  for (const part of parts)
    if ('text' in part) chars += part.text.length;
    else chars += 'bytes' in part ? part.bytes.length : 1024;
  return chars;
}

/** A run counts as at least so much when another one is to begin: most say something. */
const RUN_CHARS = 64 << 10;

/**
 * Limits the text and artifacts that the runs of a runner hold, and what of it is written at a time.
 * A run counts until it is over. One that would exceed the limit waits while others are ending, for
 * their memory is about to be free; if none is, it fails.
 */
export class HeldText {
  readonly #maxRun: number;
  readonly #maxAll: number;
  readonly #maxWritten: number;
  #all = 0;
  /** How much a run held at its end: the mean, the newest runs counting most. */
  #typical = 0;
  readonly #ending = new Set<HeldRun>();
  /** Runs that wait for memory, in the order in which they began to. */
  readonly #waiting = new Map<HeldRun, () => void>();
  #written = 0;
  /** Batches that wait for others to be written. */
  readonly #queue: { readonly chars: number; readonly go: () => void }[] = [];

  constructor(maxRun: number, maxAll: number) {
    this.#maxRun = maxRun;
    this.#maxAll = maxAll;
    this.#maxWritten = maxAll / 2;
  }

  /** Whether another run may begin beside so many: half is left for those that are under way. */
  hasRoomBeside(runs: number): boolean {
    if (this.#all >= this.#maxAll / 2) return false;
    const expected = Math.max(this.#typical, Math.min(RUN_CHARS, this.#maxAll / 32));
    return runs === 0 || (runs + 1) * expected <= this.#maxAll;
  }

  /** What one run holds. It fails by `stop`; from when that aborts, it is ending. */
  start(stop: Cancellation): HeldRun {
    const run = new HeldRun(this, stop);
    run.unlisten = stop.onAbort(() => this.end(run));
    return run;
  }

  /** Calls `work`, which writes so many characters, when there is memory for it. */
  async write<T>(chars: number, work: () => Promise<T>): Promise<T> {
    if (this.#queue.length > 0 || !this.#mayWrite(chars))
      await new Promise<void>((go) => this.#queue.push({ chars, go }));
    else this.#written += chars;
    try {
      return await work();
    } finally {
      this.#written -= chars;
      this.#writeNext();
    }
  }

  /** Resolves when the run may say more. */
  add(run: HeldRun, chars: number): Promise<void> | undefined {
    if (chars === 0) return undefined;
    run.chars += chars;
    this.#all += chars;
    if (this.#ending.has(run)) return undefined;
    if (run.chars > this.#maxRun)
      run.fail(
        new DuolaneError(
          'too_large',
          `text and artifacts of the run exceed maxRunChars (${this.#maxRun}): ${run.chars}; put large results behind a URL`,
        ),
      );
    else if (this.#all > this.#maxAll) {
      if (this.#ending.size > 0) return new Promise((resolve) => this.#waiting.set(run, resolve));
      this.#refuse(run);
    }
    return undefined;
  }

  /** Its agent is through or stopped, so what it holds is about to be free. */
  end(run: HeldRun): void {
    if (run.isOver) return;
    this.#ending.add(run);
    this.#resume(run);
  }

  free(run: HeldRun): void {
    this.#typical += (run.chars - this.#typical) / 8;
    this.#all -= run.chars;
    this.#ending.delete(run);
    this.#resume(run);
    if (this.#all <= this.#maxAll)
      for (const waiting of this.#waiting.keys()) this.#resume(waiting);
    const [first] = this.#waiting.keys();
    if (first && this.#ending.size === 0) this.#refuse(first);
  }

  #refuse(run: HeldRun): void {
    run.fail(
      new DuolaneError(
        'overloaded',
        `text and artifacts of all runs here exceed maxHeldChars (${this.#maxAll}): ${this.#all}; try again later, or give the process more memory`,
      ),
    );
  }

  #resume(run: HeldRun): void {
    const resolve = this.#waiting.get(run);
    this.#waiting.delete(run);
    resolve?.();
  }

  // One is always written, however long it is.
  #mayWrite(chars: number): boolean {
    return this.#written === 0 || this.#written + chars <= this.#maxWritten;
  }

  #writeNext(): void {
    for (let next = this.#queue[0]; next && this.#mayWrite(next.chars); next = this.#queue[0]) {
      this.#queue.shift();
      this.#written += next.chars;
      next.go();
    }
  }
}

/** What one run holds, in `HeldText`. */
export class HeldRun {
  chars = 0;
  isOver = false;
  unlisten = (): void => {};
  readonly #held: HeldText;
  readonly #stop: Cancellation;

  constructor(held: HeldText, stop: Cancellation) {
    this.#held = held;
    this.#stop = stop;
  }

  /** The run has said this. If it may not say more for now, what this gives resolves when it may. */
  add(event: AgentEvent): Promise<void> | undefined {
    if (event.type === 'run.finished') this.#held.end(this);
    return this.#held.add(this, heldBy(event));
  }

  fail(error: DuolaneError): void {
    this.#stop.abort(error);
  }

  /** The run is over. Twice is fine. */
  free(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.unlisten();
    this.#held.free(this);
  }
}
