import { DuolaneError } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import { orAborted } from '../session/handshake.ts';
import { startSession } from '../session/open-session.ts';
import type { QueryOptions } from '../options/options.ts';
import { AbortError, checkPrompt, type Query, type QueryInput, runOn } from './query.ts';

const MINUTE_MS = 60_000;

/** A CLI that has been started and has answered `initialize`, waiting for its prompt. */
export interface WarmQuery extends AsyncDisposable {
  /** Once; throws `conflict` the second time. */
  query(prompt: QueryInput['prompt']): Query;
  close(): void;
}

export interface StartupInput {
  readonly options?: QueryOptions;
  /** How long the CLI may take to answer `initialize`; a minute by default. */
  readonly initializeTimeoutMs?: number;
}

/**
 * Starts a CLI ahead of its prompt. Rejects as the session does if it does not come up, with
 * `timeout` if it says nothing; nothing is left running then.
 */
export async function startup({
  options = {},
  initializeTimeoutMs = MINUTE_MS,
}: StartupInput = {}): Promise<WarmQuery> {
  const signal = options.abortController?.signal;
  const session = await startSession(options, signal).catch((error: unknown) => {
    throw signal?.aborted ? new AbortError(undefined, { cause: signal.reason }) : error;
  });
  try {
    const limit = AbortSignal.timeout(initializeTimeoutMs);
    await orAborted(session.initialized, signal ? AbortSignal.any([limit, signal]) : limit);
  } catch (error) {
    await session[Symbol.asyncDispose]();
    throw signal?.aborted ? new AbortError(undefined, { cause: signal.reason }) : error;
  }
  const close = (): void => {
    session[Symbol.asyncDispose]().catch(() => {}); // told by the logger
  };
  // Also before there is a query: nothing else would end the CLI then.
  const unlisten = onAbort(signal && AbortSignal.any([signal]), close);
  onAbort(session.closing, unlisten);
  let isTaken = false;
  return {
    query(prompt) {
      if (isTaken) throw new DuolaneError('conflict', 'a warm query has one prompt; start another');
      checkPrompt(prompt);
      isTaken = true;
      return runOn(Promise.resolve(session), prompt, signal);
    },
    close,
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}
