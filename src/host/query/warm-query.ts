import { DuolaneError } from '../../errors.ts';
import { onAbort } from '../../stream/abort.ts';
import { orAborted } from '../session/handshake.ts';
import { startSession } from '../session/open-session.ts';
import type { QueryOptions } from '../options/options.ts';
import { AbortError, checkPrompt, type Query, type QueryInput, runOn } from './query.ts';

const MINUTE_MS = 60_000;

/** A CLI that has started and responded to `initialize`, and waits for its prompt. */
export interface WarmQuery extends AsyncDisposable {
  /** Runs a prompt on the started CLI. Throws `conflict` the second time. */
  query(prompt: QueryInput['prompt']): Query;
  /** Ends the CLI without waiting for it. */
  close(): void;
}

export interface StartupInput {
  readonly options?: QueryOptions;
  /** How long the CLI may take to respond to `initialize`; a minute by default. */
  readonly initializeTimeoutMs?: number;
}

/**
 * Starts a CLI before its prompt is known, so that the first response comes sooner. Rejects with
 * the error of the session if the CLI fails to start, and with `timeout` if it does not respond to
 * `initialize`; no process is left running then.
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
    session[Symbol.asyncDispose]().catch(() => {}); // the session logs the error
  };
  // Listen here as well: before `query` is called, nothing else would end the CLI.
  const unlisten = onAbort(signal && AbortSignal.any([signal]), close);
  onAbort(session.closing, unlisten);
  let isTaken = false;
  return {
    query(prompt) {
      if (isTaken)
        throw new DuolaneError('conflict', 'a warm query runs one prompt; call startup() again');
      checkPrompt(prompt);
      isTaken = true;
      return runOn(Promise.resolve(session), prompt, signal);
    },
    close,
    [Symbol.asyncDispose]: () => session[Symbol.asyncDispose](),
  };
}
