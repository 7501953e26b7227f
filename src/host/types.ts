import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ToolProblem } from '../mcp/types.ts';
import type { Abortable } from '../stream/types.ts';
import type { ToolUse } from './session/tool-calls.ts';
import type { PermissionDecision } from './sdk-types/permission-types.ts';

/**
 * One agent process. A control frame is dispatched when it is parsed, and only then queued for
 * observation; the queue spills to disk, so no reader, slow or absent, delays a tool call. The gate
 * is inside: stdin closes when input has ended and `holding` is empty. Disposing: interrupt if busy,
 * abort and await handlers, end input, grace, SIGTERM, SIGKILL of the tree; twice is fine.
 */
export interface Session extends AsyncDisposable {
  /** The session's id as asked for or as the CLI says; empty until one of the two is known. */
  readonly id: string;
  /** What the CLI answered to `initialize`. */
  readonly initialized: Promise<JsonObject>;
  /**
   * `initialize` is answered and every in-process server was listed in full; rejects naming those
   * that were not. An older CLI lists with its first turn only: then call it after `send`.
   */
  ready(options?: Abortable): Promise<{ readonly servers: readonly ServerReady[] }>;
  /** Opens a turn; resolves when the pipe has room for more. Rejects with `closed` after the end of input. */
  send(message: JsonObject | string): Promise<void>;
  /** One reader at a time. Leaving the loop leaves the rest where it is, for the next reader. */
  frames(): AsyncIterable<Frame>;
  /** `frames()`, lane `message` in, unwrapped. An error result is a message; only a broken session throws. */
  messages(): AsyncIterable<JsonObject>;
  /**
   * The messages of the next turn nobody has read, up to its result; what is left of earlier turns
   * is skipped. Leaving early gives up that turn: the next `response()` is about the next turn.
   */
  response(): AsyncIterable<JsonObject>;
  request(subtype: string, fields?: JsonObject, options?: Abortable): Promise<unknown>;
  /**
   * Resolves with the CLI's receipt. One that does not acknowledge, or whose turn goes on, is ended
   * after `interruptMs`, and the session fails with `timeout`.
   */
  interrupt(options?: { readonly cancelQueued?: boolean }): Promise<InterruptReceipt>;
  /** No more messages: stdin closes once nothing holds it. With `force` now, and answers get lost. */
  endInput(options?: { readonly force?: boolean }): void;
  /** What keeps stdin open, in words: `tools/call create_ticket on cci`, `background task b1`. */
  readonly holding: readonly string[];
  /** The tools that the model called, oldest first; the last thousand. */
  readonly calls: readonly ToolUse[];
  /** Every permission that was decided here, oldest first; the last thousand. */
  readonly decisions: readonly PermissionDecision[];
  /**
   * The end of the process, whether anybody reads or not. Rejects as the message lane does when the
   * session broke: `peer_exited`, `response_lost`, `timeout`, `not_found`. Needs no handler.
   */
  readonly done: Promise<{ readonly code: number | null; readonly signal?: string }>;
}

export interface ServerReady {
  readonly name: string;
  /** How many tools were declared, also those that had to be left out. */
  readonly registered: number;
  readonly listed: number;
  /** Tools that were left out when they were registered, each with the reason. */
  readonly problems?: readonly ToolProblem[];
}

/** Uuids of messages that still wait, and of those that were withdrawn with `cancelQueued`. */
export interface InterruptReceipt extends JsonObject {
  readonly still_queued?: readonly string[];
  readonly cancelled?: readonly string[];
}
