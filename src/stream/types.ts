/**
 * Options of every function that waits. When the signal aborts, the function rejects with its
 * reason.
 */
export interface Abortable {
  readonly signal?: AbortSignal;
}

/**
 * A lazy list that can be read once. `checkpoint` is an opaque position after the items yielded so
 * far, if the source has one; a new list that is given it as `after` continues there. Page cursors
 * of a protocol stay inside its transport.
 */
export interface Items<T> extends AsyncIterable<T> {
  readonly checkpoint?: string | undefined;
}

/** Where a list begins: after a checkpoint, or at its first item. */
export interface ListOptions extends Abortable {
  readonly after?: string;
}
