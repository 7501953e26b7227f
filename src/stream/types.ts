/** Options of everything that waits. */
export interface Abortable {
  readonly signal?: AbortSignal;
}

/**
 * A lazy list, single use. `checkpoint` is the opaque place after the items yielded so far, if the
 * source has one; given as `after`, a new list goes on there. Cursors of a wire live only inside
 * that wire's end.
 */
export interface Items<T> extends AsyncIterable<T> {
  readonly checkpoint?: string | undefined;
}

export interface ListOptions extends Abortable {
  readonly after?: string;
}
