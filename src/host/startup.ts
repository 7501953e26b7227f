import { startSession } from './open.ts';
import type { Options } from './options.ts';
import { type Query, type QueryInput, runOn } from './query.ts';

/** A CLI that has been started and has answered `initialize`, waiting for its prompt. */
export interface WarmQuery extends AsyncDisposable {
  /** Once. */
  query(prompt: QueryInput['prompt']): Query;
  close(): void;
}

/**
 * Starts a CLI ahead of its prompt. Rejects as the session does if it does not come up; nothing is
 * left running then.
 */
export async function startup({
  options = {},
}: { readonly options?: Options } = {}): Promise<WarmQuery> {
  const session = await startSession(options);
  try {
    await session.initialized;
  } catch (error) {
    await session[Symbol.asyncDispose]();
    throw error;
  }
  return {
    query: (prompt) => runOn(Promise.resolve(session), prompt, options.abortController?.signal),
    close: () => void session[Symbol.asyncDispose]().catch(() => {}), // told by the logger
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}
