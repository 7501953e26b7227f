import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ToolProblem } from '../mcp/types.ts';
import type { Abortable } from '../stream/types.ts';
import type { ToolUse } from './session/tool-calls.ts';
import type { PermissionDecision } from './sdk-types/permission-types.ts';

/**
 * One agent CLI process. A control frame is dispatched as soon as it is parsed and only then queued
 * for readers. The queue spills to disk, so a slow or absent reader never delays a tool call. Stdin
 * closes when the input has ended and `holding` is empty.
 *
 * Disposing interrupts a running turn, aborts and awaits handlers, ends the input, and ends the
 * process tree: after the grace period with SIGTERM, then with SIGKILL. Disposing twice is allowed.
 *
 * @example
 * await using session = await openSession({ allowedTools: ['Read'] });
 * await session.send('Summarize README.md');
 * for await (const message of session.response()) console.log(message);
 */
export interface Session extends AsyncDisposable {
  /**
   * The session id that the options request or the CLI reports; empty until one of them is known.
   */
  readonly id: string;
  /** The CLI's response to `initialize`. */
  readonly initialized: Promise<JsonObject>;
  /**
   * Resolves when the CLI has responded to `initialize` and has listed every in-process server
   * completely; rejects with the names of the servers it has not listed. An older CLI lists servers
   * with its first turn: call `ready` after `send` then.
   */
  ready(options?: Abortable): Promise<{ readonly servers: readonly ServerReady[] }>;
  /**
   * Sends a message, which opens a turn; resolves when the pipe has room for more. Rejects with
   * `closed` after the end of input.
   */
  send(message: JsonObject | string): Promise<void>;
  /**
   * All frames; one loop at a time. Breaking out leaves the rest in the queue for the next loop.
   */
  frames(): AsyncIterable<Frame>;
  /**
   * The messages of the CLI. An error result is yielded as a message; the loop throws only when the
   * session itself breaks.
   */
  messages(): AsyncIterable<JsonObject>;
  /**
   * The messages of the next unread turn, up to its result. Messages that remain of earlier turns
   * are skipped. Breaking out skips the rest of the turn: the next `response()` yields the next
   * turn.
   */
  response(): AsyncIterable<JsonObject>;
  /** Sends a control request and returns the CLI's response; an abort withdraws it. */
  request(subtype: string, fields?: JsonObject, options?: Abortable): Promise<unknown>;
  /**
   * Interrupts the running turn; resolves with the CLI's receipt. A CLI that does not acknowledge
   * it, or whose turn continues, is ended after `interruptMs`, and the session fails with
   * `timeout`.
   */
  interrupt(options?: { readonly cancelQueued?: boolean }): Promise<InterruptReceipt>;
  /**
   * Ends the input: stdin closes as soon as `holding` is empty. With `force` it closes immediately,
   * and responses to open requests are lost.
   */
  endInput(options?: { readonly force?: boolean }): void;
  /** What keeps stdin open, e.g. `tools/call create_ticket on cci`, `background task b1`. */
  readonly holding: readonly string[];
  /** The last thousand tool calls of the model, oldest first. */
  readonly calls: readonly ToolUse[];
  /** The last thousand permission decisions of the host, oldest first. */
  readonly decisions: readonly PermissionDecision[];
  /**
   * Settles at the end of the process, also without a reader. Rejects with the same error as the
   * message lane when the session broke: `peer_exited`, `response_lost`, `timeout`, `not_found`. An
   * unobserved rejection causes no warning.
   */
  readonly done: Promise<{ readonly code: number | null; readonly signal?: string }>;
}

export interface ServerReady {
  readonly name: string;
  /** How many tools were declared, including those that were left out. */
  readonly registered: number;
  /** How many tools the CLI listed. */
  readonly listed: number;
  /** Tools that were left out at registration, each with its error. */
  readonly problems?: readonly ToolProblem[];
}

/** Uuids of messages that are still queued, and of those that `cancelQueued` removed. */
export interface InterruptReceipt extends JsonObject {
  readonly still_queued?: readonly string[];
  readonly cancelled?: readonly string[];
}
