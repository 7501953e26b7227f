import { DuolaneError } from '../errors.ts';

/**
 * Closes resources in the reverse order of opening. Every closer runs, even if an earlier one
 * failed. After that a single failure is thrown as it is; several are thrown as one `internal`
 * error with an AggregateError as its cause. Closing twice is allowed. (Node 20 has no
 * AsyncDisposableStack.)
 */
export class Disposer implements AsyncDisposable {
  readonly #closers: (() => unknown)[] = [];
  #disposed: Promise<void> | undefined;

  /**
   * Registers `close`. Throws `closed` if disposal has begun: the caller then still owns the
   * resource.
   */
  defer(close: () => unknown): void {
    if (this.#disposed)
      throw new DuolaneError('closed', 'cannot register a resource: this scope is already closed');
    this.#closers.push(close);
  }

  /** Registers the resource to be closed, and returns it. */
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
      throw new DuolaneError('internal', `${errors.length} resources failed to close`, { cause });
    }
  }
}
