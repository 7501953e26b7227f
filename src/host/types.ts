import type { Ask } from '../ask.ts';
import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ToolSource } from '../mcp/types.ts';
import type { Abortable } from '../stream/types.ts';

/** What `openSession` adds to the options of `query()`. */
export interface SessionExtras {
  readonly mcpServers?: Readonly<Record<string, ToolSource | JsonObject>>;
  readonly resume?: string;
  readonly sessionId?: string;
  /** Gets `input` of a tool, can_use_tool and elicitation, unless their own callback is set; their request stays open. */
  readonly ask?: Ask;
  /** What `frames()` holds; with `message`, the default, the control lane costs nothing. */
  readonly lanes?: 'message' | 'both';
  /** A sync tap, both lanes and directions, as a line is parsed or written; must be quick. */
  readonly onFrame?: (frame: Frame) => void;
}

/**
 * One agent process. A control frame is dispatched when it is parsed, and only then queued for
 * observation; the queue spills to disk, so no reader, slow or absent, delays a tool call. The gate
 * is inside: stdin closes when input has ended and `holding` is empty. Disposing: interrupt if busy,
 * end input, grace, SIGTERM, SIGKILL of the tree; twice is fine.
 */
export interface Session extends AsyncDisposable {
  readonly id: string;
  ready(options?: Abortable): Promise<{ readonly servers: readonly ServerReady[] }>;
  send(message: JsonObject | string): Promise<void>;
  /** One reader in all: `messages()` is this, lane `message` in, unwrapped. */
  frames(): AsyncIterable<Frame>;
  messages(): AsyncIterable<JsonObject>;
  /** `messages()` up to the turn's result. */
  response(): AsyncIterable<JsonObject>;
  request(subtype: string, fields?: JsonObject, options?: Abortable): Promise<unknown>;
  interrupt(): Promise<void>;
  endInput(): void;
  /** What keeps stdin open, in words: `tools/call create_ticket`, `background task b1`. */
  readonly holding: readonly string[];
  readonly done: Promise<{ readonly code: number | null; readonly signal?: string }>;
}

export interface ServerReady {
  readonly name: string;
  readonly registered: number;
  readonly listed: number;
}
