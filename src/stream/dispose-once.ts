/**
 * Returns a dispose function that runs `close` once. Every call gets the promise of the first, also
 * a concurrent call and one from inside `close`. Without this, a second dispose may overwrite state
 * that the first one waits for, and the first never resolves.
 */
export function disposeOnce(close: () => void | PromiseLike<unknown>): () => Promise<void> {
  let disposed: Promise<void> | undefined;
  return () => {
    if (disposed) return disposed;
    let settle: (closed: Promise<void>) => void = () => {};
    // Set before `close` runs, so that a dispose from inside it does not start a second one.
    disposed = new Promise((resolve) => (settle = resolve));
    settle(
      (async () => {
        await close();
      })(),
    );
    return disposed;
  };
}
