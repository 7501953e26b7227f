import { DuolaneError, type ErrorCode } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Exit } from '../../process/types.ts';

/** What is known about the end of a CLI; the `cause` of the errors that report it. */
export interface PeerReport {
  readonly exitCode: number | null;
  readonly signal?: string;
  /** The last 64 KiB. */
  readonly stderr: string;
  /** The last twenty frames of both lanes and directions, oldest first. */
  readonly frames: readonly JsonObject[];
}

/** An error about a CLI that is gone: one line of cause in the message, the rest as `cause`. */
export function peerError(
  code: ErrorCode,
  what: string,
  exit: Exit,
  frames: readonly JsonObject[],
): DuolaneError {
  const { code: exitCode, signal, stderr } = exit;
  const how = signal === undefined ? `exited with code ${exitCode}` : `was ended by ${signal}`;
  const line = lastLine(stderr);
  const report: PeerReport = {
    exitCode,
    ...(signal !== undefined && { signal }),
    stderr,
    frames,
  };
  return new DuolaneError(
    code,
    `the agent ${how} ${what}${line === '' ? '' : `; stderr: ${line}`}`,
    {
      cause: report,
    },
  );
}

/** The line that most likely says why: the last one that names an error, else the last. */
function lastLine(stderr: string): string {
  const lines = stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const line = lines.findLast((each) => /error|fatal|cannot|not found/i.test(each)) ?? lines.at(-1);
  return (line ?? '').slice(0, 300);
}

export const closedInput = (): DuolaneError =>
  new DuolaneError('closed', 'the input of this session has ended; open another one, or resume it');

/** For a user message that the CLI did not read. */
export const undelivered = (cause: DuolaneError): DuolaneError =>
  new DuolaneError('closed', `a message did not reach the agent: ${cause.message}`, { cause });

/** The transport of a session threw, which its contract forbids. */
export const brokenTransport = (cause: unknown): DuolaneError =>
  new DuolaneError(
    'internal',
    `the transport of the agent failed: ${DuolaneError.from(cause).message}`,
    { cause },
  );

/** For requests that the CLI left unanswered when it ended. */
export function unansweredError(
  exit: Exit,
  frames: readonly JsonObject[],
  isClosed: boolean,
): DuolaneError {
  if (exit.startError) return DuolaneError.from(exit.startError);
  return isClosed
    ? new DuolaneError('closed', 'the session was closed')
    : peerError('peer_exited', 'before it answered', exit, frames);
}
