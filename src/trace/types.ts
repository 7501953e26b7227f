/** `error`: data was lost, or will be. `warning`: it works here, but not everywhere. */
export type Severity = 'error' | 'warning' | 'info';

/** One broken rule: where, what happened, and how to fix it. */
export interface Finding {
  readonly rule: string;
  readonly severity: Severity;
  /** The line of the file, from 1; 0 if the finding has no line. */
  readonly line: number;
  readonly what: string;
  readonly fix: string;
}

/**
 * Checks records one by one, in the order of the file; `end` reports what is missing. It does no
 * I/O, and its memory is that of the open items.
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
  /** Unix time in ms of its arrival, if known. */
  readonly at?: number;
}
