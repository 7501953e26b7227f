import { DuolaneError } from '../errors.ts';

/**
 * What must be closed, closed in the reverse order of opening. Every closer runs, also when one
 * before it failed; then the failure is thrown, or one `internal` with all of them as its cause.
 * Closing twice is fine. (Node 20 has no AsyncDisposableStack.)
 */
export class Disposer implements AsyncDisposable {
  readonly #closers: (() => unknown)[] = [];
  #disposed: Promise<void> | undefined;

  /** Runs `close` at the end. Throws `closed` when that has begun: the caller still owns the thing. */
  defer(close: () => unknown): void {
    if (this.#disposed) throw new DuolaneError('closed', 'this scope has been closed already');
    this.#closers.push(close);
  }

  /** Closes the resource at the end, and gives it back. */
  use<R extends AsyncDisposable | Disposable>(resource: R): R {
    this.defer(() =>
      Symbol.asyncDispose in resource
        ? resource[Symbol.asyncDispose]()
        : (resource as Disposable)[Symbol.dispose](),
    );
    return resource;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#disposed ??= this.#close();
    return this.#disposed;
  }

  async #close(): Promise<void> {
    const errors: unknown[] = [];
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length === 1) throw errors[0];
    if (errors.length > 1) {
      const cause = new AggregateError(errors);
      throw new DuolaneError('internal', `${errors.length} things failed to close`, { cause });
    }
  }
}
