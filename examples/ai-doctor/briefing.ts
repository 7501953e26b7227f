import { DuolaneError } from 'duolane';
import { query, type Options, type SDKMessage, type UserInput } from 'duolane/host';
import { BriefingGenerationError } from './errors.ts';
import { checkBriefing, type PatientBriefing } from './patient-briefing.ts';
import { type PatientRecord, readRecord } from './record.ts';
import type { Guidelines } from './retrieval/guidelines.ts';
import { sessionOptions } from './session.ts';
import { parseSources, type Source, wordsOf } from './sources.ts';

export interface BriefingOptions {
  readonly guidelines: Guidelines | Promise<Guidelines>;
  /** Gets every message of the agent. */
  readonly onMessage?: (message: SDKMessage) => void;
  readonly onWarning?: (message: string) => void;
  /** Further options of the session, such as `abortController`, `onFrame` or another CLI. */
  readonly session?: Options;
}

/**
 * Returns the validated briefing for a patient. The record is a streamed prompt, and the agent
 * searches through the in-process server. Throws `BriefingGenerationError` with a code; any other
 * error is rethrown unchanged.
 */
export async function generateBriefing(
  input: unknown,
  { guidelines, onMessage, onWarning, session }: BriefingOptions,
): Promise<PatientBriefing> {
  const record = readRecord(input);
  const run = query({
    prompt: asPrompt(record),
    options: { ...sessionOptions(guidelines), persistSession: false, ...session },
  });
  return readBriefing(run, { ...(onMessage && { onMessage }), ...(onWarning && { onWarning }) });
}

/** Yields one message and ends; the session keeps stdin open for the tools until the run ends. */
export async function* asPrompt(record: PatientRecord): AsyncGenerator<UserInput, void> {
  yield { type: 'user', message: { role: 'user', content: JSON.stringify(record, null, 2) } };
}

/**
 * Evaluates the messages of a run. Separate, so that tests can try every order of ends without a
 * process.
 */
export async function readBriefing(
  messages: AsyncIterable<SDKMessage>,
  { onMessage, onWarning }: Pick<BriefingOptions, 'onMessage' | 'onWarning'> = {},
): Promise<PatientBriefing> {
  const returned: Source[] = [];
  let result: Extract<SDKMessage, { readonly type: 'result' }> | undefined;
  try {
    for await (const message of messages) {
      if (message.type === 'user') returned.push(...parseSources(wordsOf(message.message)));
      if (message.type === 'result') result = message as typeof result;
      onMessage?.(message);
    }
  } catch (error) {
    // After a result, an error of the closing pipe changes nothing; an error result is more
    // specific.
    if (!isConnectionError(error) && !result?.is_error) throw error;
    if (!result)
      throw new BriefingGenerationError(
        'CLI_CONNECTION_ERROR',
        `the agent CLI went away before it had a result: ${messageOf(error)}`,
        { cause: error },
      );
    if (!result.is_error) onWarning?.(`ignored after the result: ${messageOf(error)}`);
  }
  if (!result)
    throw new BriefingGenerationError(
      'CLI_CONNECTION_ERROR',
      'the agent CLI ended without a result',
    );
  if (result.subtype !== 'success' || result.is_error)
    throw new BriefingGenerationError(
      'AGENT_ERROR',
      `the agent ended with ${result.subtype}: ${result.subtype === 'success' ? result.result : result.errors.join('; ')}`,
    );
  return checkBriefing(result.structured_output, returned);
}

const LOST = new Set(['peer_exited', 'response_lost', 'closed', 'network']);

/** A connection error, alone or in an AggregateError, which depends on timing. */
const isConnectionError = (error: unknown): boolean =>
  error instanceof AggregateError
    ? error.errors.some(isConnectionError)
    : error instanceof DuolaneError && LOST.has(error.code);

const messageOf = (error: unknown): string =>
  error instanceof AggregateError
    ? error.errors.map(messageOf).join('; ')
    : error instanceof Error
      ? error.message
      : String(error);
