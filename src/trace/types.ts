/** `error`: something was lost, or will be. `warning`: it works here, and not everywhere. */
export type Severity = 'error' | 'warning' | 'info';

/** One broken rule: where, what happened, what to do. */
export interface Finding {
  readonly rule: string;
  readonly severity: Severity;
  /** The line of the file, from 1; 0 where there is none. */
  readonly line: number;
  readonly what: string;
  readonly fix: string;
}

/**
 * Judges records one by one, in the order of the file. What is missing is told by `end`. It has no
 * I/O, and its memory is that of what is open.
 */
export interface Checker<Item> {
  see(item: Item, line: number): readonly Finding[];
  end(): readonly Finding[];
}

/** One event of an A2A stream as it came over HTTP. */
export interface StreamRecord {
  /** The text of its `data` lines, joined by newlines. */
  readonly data: string;
  /** The SSE id, if there was one. */
  readonly id?: string;
  /** Unix time in ms of its arrival, where that is known. */
  readonly at?: number;
}
