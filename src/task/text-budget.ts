import { getHeapStatistics } from 'node:v8';
import { DuolaneError } from '../errors.ts';
import { artifactChars, artifactsChars } from '../event/fold/artifacts.ts';
import { turnChars } from '../event/fold/turns.ts';
import type { AgentEvent, Snapshot } from '../event/types.ts';
import { jsonChars } from '../json.ts';
import type { Cancellation } from '../stream/cancellation.ts';

/**
 * What V8 reserves for new objects. The heap limit includes it, but long-lived text is not there.
 */
const YOUNG_BYTES = 48 << 20;

/** Returns a sixteenth of the heap of this process or thread: a text is in memory several times. */
export function heapShare(): number {
  const limit = getHeapStatistics().heap_size_limit;
  return Math.floor(Math.max(limit / 2, limit - YOUNG_BYTES) / 16);
}

/** What an artifact takes beside its parts: without it, empty artifacts would have no limit. */
const ARTIFACT_CHARS = 256;

/** Returns how many characters an event adds to the memory of its run. */
export function charsOf(event: AgentEvent): number {
  switch (event.type) {
    case 'text.delta':
    case 'reasoning.delta':
      return event.delta.length;
    case 'artifact':
      return artifactChars(event) + (event.append ? 0 : ARTIFACT_CHARS);
    default:
      return 0;
  }
}

/** Returns roughly how many characters the lines of events take while they are written. */
export function writtenBy(events: readonly AgentEvent[]): number {
  let chars = 0;
  for (const event of events) {
    if ('delta' in event) chars += event.delta.length;
    else if (event.type === 'artifact') chars += artifactChars(event);
    // Its text becomes one flat string here for the first time, and then a line.
    else if ('text' in event && typeof event.text === 'string') chars += 2 * event.text.length;
    chars += 256;
  }
  return chars;
}

/** Returns roughly how many characters a snapshot takes. */
export function snapshotChars(snapshot: Snapshot): number {
  const { text, turns, unserved, said = [], waits = [] } = snapshot;
  const { calls, pending, answers } = snapshot;
  let chars = 1024 + text.length + artifactsChars(snapshot);
  for (const turn of turns) chars += turnChars(turn);
  for (const turn of unserved) if (!turns.includes(turn)) chars += turnChars(turn);
  for (const each of said) chars += each.text.length;
  for (const list of [calls, pending, answers, waits])
    for (const each of list) chars += jsonChars(each);
  return chars;
}

/** A run counts as at least this much when another one is to start, since most runs write text. */
const RUN_CHARS = 64 << 10;

/**
 * Limits the text and artifacts that the runs of a runner keep in memory, and how much of it is
 * written at a time. A run counts until it is over. A run that would exceed the limit waits while
 * others are ending, since their memory is about to be free; if none is ending, it fails.
 */
export class TextBudget {
  readonly #maxRun: number;
  readonly #maxAll: number;
  readonly #maxWritten: number;
  #all = 0;
  /** How much a run had at its end: the mean, in which the newest runs count most. */
  #typical = 0;
  readonly #ending = new Set<RunText>();
  /** Runs that wait for memory, in the order in which they began to wait. */
  readonly #waiting = new Map<RunText, () => void>();
  #written = 0;
  /** Batches that wait for others to be written. */
  readonly #queue: { readonly chars: number; readonly go: () => void }[] = [];

  constructor(maxRun: number, maxAll: number) {
    this.#maxRun = maxRun;
    this.#maxAll = maxAll;
    this.#maxWritten = maxAll / 2;
  }

  /** Whether another run may start beside so many: half of the limit is reserved for them. */
  hasRoomBeside(runs: number): boolean {
    if (this.#all >= this.#maxAll / 2) return false;
    const expected = Math.max(this.#typical, Math.min(RUN_CHARS, this.#maxAll / 32));
    return runs === 0 || (runs + 1) * expected <= this.#maxAll;
  }

  /**
   * Starts to count one run. A run over its limit fails by `stop`; when that aborts, it is ending.
   */
  start(stop: Cancellation): RunText {
    const run = new RunText(this, stop);
    run.unlisten = stop.onAbort(() => this.end(run));
    return run;
  }

  /** Calls `work`, which writes so many characters, as soon as there is memory for it. */
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

  /** Counts characters of a run. Returns a promise if the run has to wait, until it may go on. */
  add(run: RunText, chars: number): Promise<void> | undefined {
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

  /** The agent has ended or is stopped, so the memory of the run is about to be free. */
  end(run: RunText): void {
    if (run.isOver) return;
    this.#ending.add(run);
    this.#resume(run);
  }

  free(run: RunText): void {
    this.#typical += (run.chars - this.#typical) / 8;
    this.#all -= run.chars;
    this.#ending.delete(run);
    this.#resume(run);
    if (this.#all <= this.#maxAll)
      for (const waiting of this.#waiting.keys()) this.#resume(waiting);
    const [first] = this.#waiting.keys();
    if (first && this.#ending.size === 0) this.#refuse(first);
  }

  #refuse(run: RunText): void {
    run.fail(
      new DuolaneError(
        'overloaded',
        `text and artifacts of all runs here exceed maxTotalChars (${this.#maxAll}): ${this.#all}; try again later, or give the process more memory`,
      ),
    );
  }

  #resume(run: RunText): void {
    const resolve = this.#waiting.get(run);
    this.#waiting.delete(run);
    resolve?.();
  }

  // One batch is always written, however long it is.
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

/** The text and artifacts of one run, in `TextBudget`. */
export class RunText {
  chars = 0;
  isOver = false;
  unlisten = (): void => {};
  readonly #budget: TextBudget;
  readonly #stop: Cancellation;

  constructor(budget: TextBudget, stop: Cancellation) {
    this.#budget = budget;
    this.#stop = stop;
  }

  /** Counts an event of the run. Returns a promise if the run has to wait, until it may go on. */
  add(event: AgentEvent): Promise<void> | undefined {
    if (event.type === 'run.finished') this.#budget.end(this);
    return this.#budget.add(this, charsOf(event));
  }

  fail(error: DuolaneError): void {
    this.#stop.abort(error);
  }

  /** Ends the count: the run is over. May be called twice. */
  free(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.unlisten();
    this.#budget.free(this);
  }
}
