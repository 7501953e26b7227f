import { DuolaneError, type ErrorCode } from '../../errors.ts';
import { type JsonObject, omitUndefined } from '../../json.ts';
import type { Exit } from '../../process/types.ts';

/** How a CLI ended. It is the `cause` of the errors `peer_exited` and `response_lost`. */
export interface PeerReport {
  readonly exitCode: number | null;
  readonly signal?: string;
  /** The last 64 KiB of stderr. */
  readonly stderr: string;
  /** The last twenty frames of both lanes and directions, oldest first. */
  readonly frames: readonly JsonObject[];
}

/**
 * An error about a CLI that has exited: one line of stderr in the message, a `PeerReport` as
 * `cause`, and `exitCode`, as in the official SDK.
 */
export function peerError(
  code: ErrorCode,
  what: string,
  exit: Exit,
  frames: readonly JsonObject[],
): DuolaneError {
  const { code: exitCode, signal, stderr } = exit;
  const how = signal === undefined ? `exited with code ${exitCode}` : `was ended by ${signal}`;
  const line = lastLine(stderr);
  const reason = line === '' ? '' : `; stderr: ${line}`;
  const cause = omitUndefined<PeerReport>({ exitCode, signal, stderr, frames });
  const error = new DuolaneError(code, `the agent ${how} ${what}${reason}`, { cause });
  return exitCode === null ? error : Object.assign(error, { exitCode });
}

/**
 * The line of stderr that most likely has the reason: the last that names an error, else the last
 * one.
 */
function lastLine(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const line = lines.findLast((each) => /error|fatal|cannot|not found/i.test(each)) ?? lines.at(-1);
  return (line ?? '').slice(0, 300);
}

/** For a message after the end of input. */
export const closedInput = (): DuolaneError =>
  new DuolaneError('closed', 'cannot send: the input has ended; open another session or resume it');

/** For a user message that the CLI did not read. */
export const undelivered = (cause: DuolaneError): DuolaneError =>
  new DuolaneError('closed', `a message did not reach the agent: ${cause.message}`, { cause });

/** For a transport that threw, which its contract forbids. */
export const brokenTransport = (cause: unknown): DuolaneError =>
  new DuolaneError(
    'internal',
    `the transport of the agent failed: ${DuolaneError.from(cause).message}`,
    { cause },
  );

/** For requests that the CLI had not answered when it exited. */
export function unansweredError(
  exit: Exit,
  frames: readonly JsonObject[],
  isClosed: boolean,
): DuolaneError {
  if (exit.startError) return DuolaneError.from(exit.startError);
  return isClosed
    ? new DuolaneError('closed', 'the session was closed')
    : peerError('peer_exited', 'before it responded', exit, frames);
}
