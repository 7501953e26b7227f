import type { Abortable } from './types.ts';

export interface OverflowOptions<T> extends Abortable {
  /** Bytes kept in memory before the queue goes to disk. */
  readonly memoryBytes?: number;
  /** Bytes on disk before `offer` fails with `too_large`. */
  readonly diskBytes?: number;
  /** How an item becomes bytes and back; JSON by default. */
  readonly encode?: (item: T) => Uint8Array;
  readonly decode?: (bytes: Uint8Array) => T;
  /** Where the file goes; the system's temporary folder by default. */
  readonly directory?: string;
}

/**
 * A queue for a producer that must not be stopped: `offer` never waits, order is kept, memory is
 * bounded by `memoryBytes` and what is beyond waits in a temporary file, which is gone when the
 * queue closes or its process dies.
 */
export interface OverflowQueue<T> extends AsyncIterable<T>, AsyncDisposable {
  /** Takes the item at once; false when the queue has ended (the reader left). */
  offer(item: T): boolean;
  close(): void;
  fail(error: unknown): void;
  /** Items that wait, and where. */
  readonly waiting: {
    readonly items: number;
    readonly memoryBytes: number;
    readonly diskBytes: number;
  };
}
