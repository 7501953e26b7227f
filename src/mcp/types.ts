import type { Answer, Ask, InputRequest } from '../ask.ts';
import type { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { Abortable, Items, ListOptions } from '../stream/types.ts';

/** Anything that has tools. Pulled; leaving a loop cancels upstream, awaited. Optional members are capabilities. */
export interface ToolSource {
  readonly info: {
    readonly name: string;
    readonly version: string;
    readonly instructions?: string;
  };
  listTools(options?: ListOptions): Items<Tool>;
  /**
   * Any number of progress, partial, log; then exactly one `result` or `input`. Throws only if the
   * call itself failed (unknown tool, bad arguments, the wire): a failing tool is a result.
   */
  callTool(call: ToolCall, options?: CallOptions): AsyncIterable<ToolEvent>;
  listResources?(options?: ListOptions): Items<JsonObject>;
  listResourceTemplates?(options?: ListOptions): Items<JsonObject>;
  listPrompts?(options?: ListOptions): Items<JsonObject>;
  /** Each item is an entry of the wire's `contents`. */
  readResource?(
    uri: string,
    options?: AskOptions & { readonly offset?: number },
  ): AsyncIterable<JsonObject>;
  getPrompt?(name: string, args: JsonObject, options?: AskOptions): Promise<JsonObject>;
  complete?(request: JsonObject, options?: Abortable): Promise<JsonObject>;
  /** First `listening`; changes that come together may be told once; a reconnect counts as a change. */
  listen?(options?: SourceListenOptions): AsyncIterable<SourceChange>;
}

export interface SourceListenOptions extends Abortable {
  /** Single resources whose changes are wanted beside those of the lists, by URI. */
  readonly resources?: readonly string[];
}

/** For a source that is shared by several people. */
interface Attributed extends Abortable {
  /**
   * Whose request it is, where one connection serves several: any text, the same for the same
   * client. What a server says without naming a request reaches a caller only if there is no other.
   */
  readonly caller?: string | undefined;
}

export interface AskOptions extends Attributed {
  /** How to ask whoever wants it; let what it throws pass, and you are called again. */
  readonly ask?: Ask;
}

export interface CallOptions extends Attributed {
  /** Unix ms. */
  readonly deadline?: number | undefined;
}

export interface SourceChange {
  readonly type: 'listening' | 'tools' | 'resources' | 'prompts' | 'resource';
  readonly uri?: string;
}

/** In the wire's spelling; unknown members are kept. */
export interface Tool extends JsonObject {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly annotations?: JsonObject;
}

/** In the wire's spelling; unknown members are kept. */
export interface ToolResult extends JsonObject {
  readonly content: readonly JsonObject[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

export interface ToolCall {
  /** The model's call id where there is one; kept when the call is made again, so it is an idempotency key. */
  readonly id: string;
  readonly name: string;
  readonly args: JsonObject;
  readonly meta?: JsonObject;
  /** The same call again, with what its `input` event asked for. */
  readonly answers?: readonly Answer[];
  /** Echoed untouched. */
  readonly state?: string;
}

export type ToolEvent =
  | {
      readonly type: 'progress';
      readonly progress: number;
      readonly total?: number;
      readonly message?: string;
    }
  | {
      readonly type: 'partial';
      readonly index: number;
      readonly content: unknown;
      readonly final?: boolean;
    }
  | {
      readonly type: 'log';
      readonly level: string;
      readonly data: unknown;
      readonly logger?: string;
    }
  /** Last: nothing waits behind it; make the call again with the answers. */
  | { readonly type: 'input'; readonly requests: readonly InputRequest[]; readonly state?: string }
  /** Last. */
  | { readonly type: 'result'; readonly result: ToolResult };

/** Two ends per wire (in-process, stdio, http, sse, grpc). A bridge is `offerGrpc(await dialStdio(…), …)`. */
export type Dial<Options> = (options: Options & Abortable) => Promise<ToolSource & AsyncDisposable>;
export type Offer<Options> = (
  source: ToolSource,
  options: Options & Abortable,
) => Promise<AsyncDisposable & { readonly url?: string }>;

/** The JSON-RPC face of a source with no wire at all: the control lane uses it; stdio and HTTP wrap it. */
export interface MessageEndpoint extends AsyncDisposable {
  /**
   * The one entry: requests, notifications and answers to our requests. `undefined`: nothing is to
   * be sent back (it was a notification or an answer, or the request was cancelled). Never rejects.
   * When it resolves, the reader of `outgoing` has come back from everything that the request sent
   * before its answer: who writes each message before pulling the next keeps the order.
   */
  receive(message: JsonObject, options?: ReceiveOptions): Promise<JsonObject | undefined>;
  /**
   * Progress, list_changed, requests of the server. One reader; bounded: a reader that is behind
   * slows the handlers, and without any reader notifications beyond the bound are dropped.
   */
  readonly outgoing: AsyncIterable<JsonObject>;
  /** Asks the client (`ping`, `roots/list`, `sampling/createMessage`); its answer comes through `receive`. */
  request(method: string, params?: JsonObject, options?: Abortable): Promise<JsonObject>;
}

export interface ReceiveOptions extends Abortable {
  /**
   * Where what belongs to this one request goes, instead of `outgoing`: its progress and log lines,
   * and what it asks of the client. Awaited, so a slow one slows the handler.
   */
  readonly related?: (message: JsonObject) => Promise<void>;
  /** Whose request it is: the state of a call that waits for answers is good for nobody else. */
  readonly owner?: string;
}

/**
 * Your functions as a ToolSource, for any number of sessions and offers at once. `register`
 * replaces a known name, which keeps its place in the list, and throws `invalid` naming a tool
 * whose name or schema is bad (all others stay); both announce `tools` to listeners.
 */
export interface ToolRegistry extends ToolSource {
  register(tool: ToolDefinition): void;
  unregister(name: string): boolean;
  /** The tool as clients see it. */
  get(name: string): Tool | undefined;
  readonly size: number;
  /** Tools that were given and left out, each with the reason; `size + problems.length` were declared. */
  readonly problems: readonly ToolProblem[];
  listen(options?: SourceListenOptions): AsyncIterable<SourceChange>;
}

export interface ToolProblem {
  readonly name: string;
  readonly error: DuolaneError;
}

/** What may stand for a schema: a zod 3 or 4 shape or object, any Standard Schema, plain JSON Schema. */
export type SchemaInput = object;

/** A tool with its function, as `tool()` makes it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly title?: string;
  readonly inputSchema: SchemaInput;
  /** Plain JSON Schema of `structuredContent`; shown to clients. */
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly _meta?: JsonObject;
  readonly handler: ToolHandler<never>;
  /** For one run of the handler; then its signal aborts and the call ends with `isError`. None by default. */
  readonly deadlineMs?: number;
  /** Handlers of this tool at the same time; further calls wait their turn. No limit by default. */
  readonly concurrency?: number;
}

/**
 * A value, a promise or a stream, which ends with a `result` event or returns the result. A throw
 * becomes `isError` with the text `Error: <message>`; only `suspended` becomes the `input` event.
 */
export type ToolHandler<Args> = (
  args: Args,
  ctx: ToolContext,
) => ToolReturn | Promise<ToolReturn> | AsyncIterable<ToolEvent, ToolReturn | void>;

/** A string is short for one text block; with `structuredContent` alone, the text block is added. */
export type ToolReturn = string | ToolResult | { readonly structuredContent: unknown };

/**
 * `ask` holds no stack (its `id` is prefixed with the call's): unanswered, it ends the call with
 * `input`, and the handler runs again with the answer, a second later or after a restart: the
 * restart path is the only path.
 */
export interface ToolContext {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly ask: Ask;
  /** Resolves when the caller's end has taken it; never rejects, so it need not be awaited. */
  progress(done: number, total?: number, message?: string): Promise<void>;
  readonly meta?: JsonObject;
  /** What handlers of the official SDKs find beside their arguments: `meta` and `id` as they call them. */
  readonly _meta?: JsonObject;
  readonly requestId: string;
  /** `notifications/progress` and `notifications/message`; rejects with `unsupported` for any other. */
  readonly sendNotification: (notification: {
    readonly method: string;
    readonly params?: JsonObject;
  }) => Promise<void>;
  /**
   * `elicitation/create`, `sampling/createMessage` or `roots/list` of whoever calls. Works as `ask`
   * does: the handler runs again with the answer, so its requests must come in the same order.
   */
  readonly sendRequest: (
    request: { readonly method: string; readonly params?: JsonObject },
    schema?: unknown,
  ) => Promise<JsonObject>;
}

/** Any two-way road for JSON-RPC messages, one message at a time: the control lane, a pipe, HTTP. */
export interface MessageTransport {
  /**
   * Resolves when the other side has taken it; on a road that has a stream for each request, when
   * that stream has given the answer, and it rejects if the answer is lost. The signal closes that
   * stream; a road that has none need not heed it.
   */
  send(message: JsonObject, options?: Abortable): Promise<void>;
  /** One reader; ends when the other side is gone. */
  readonly incoming: AsyncIterable<JsonObject>;
  /** Whether closing the stream of a request is what cancels it: then nothing else is sent. */
  readonly cancelsByClosing?: boolean;
  /** A person may have to log in before an answer comes: silence says nothing about the server. */
  readonly mayWait?: boolean;
  /** The request of ours on whose own stream an incoming message came, if the road has such streams. */
  requestOf?(message: JsonObject): string | number | undefined;
  close?(): Promise<void>;
}

export interface OfferMessagesOptions {
  /** Answers the `input` of a tool, after which the call is made again; without it the caller is asked. */
  readonly ask?: Ask;
  /** Items in one answer of a list; 1,000 by default. */
  readonly pageSize?: number;
  /** Signs cursors and states that clients give back; give all instances the same. Random by default. */
  readonly secret?: string | Uint8Array;
  /**
   * `subscriptions/listen` requests of one owner that are open at the same time; 10,000 by default. They
   * do not count against the 1,024 other requests of an owner at one endpoint.
   */
  readonly maxSubscriptions?: number;
  /**
   * What went wrong inside: a source threw what is no DuolaneError, or is `internal`, and the client
   * learns only that. A warning of the process by default.
   */
  readonly onError?: (error: unknown) => void;
}

export interface DialMessagesOptions extends Abortable {
  /**
   * `stateless` is the revision 2026-07-28, which has no handshake and no sessions; `session` are
   * the revisions before it; `auto` tries the first and falls back to the others. The default is
   * `auto` over HTTP and `session` elsewhere.
   */
  readonly protocol?: 'auto' | 'session' | 'stateless';
  readonly clientInfo?: { readonly name: string; readonly version: string };
  /**
   * What we can do for the server: `elicitation`, `sampling`, `roots`. What it then asks goes to
   * `onRequest`; without one, what it asks in a call is an `input` event of that call, which is
   * held open for an hour, or made anew when its answers come later; in a read or a prompt it goes
   * to the `ask` given with that. A server that does not say for which of several requests it asks
   * is refused; so is one that does not name the request at all, once several callers have used
   * this connection.
   */
  readonly capabilities?: JsonObject;
  /**
   * All who call through this connection are one person, so what the server says without naming a
   * request may go to the only open call, whichever client made it. False by default.
   */
  readonly singleUser?: boolean;
  /** Requests of the server; a throw becomes a JSON-RPC error. */
  readonly onRequest?: (
    method: string,
    params: JsonObject,
    options: Abortable,
  ) => Promise<JsonObject>;
  /** Skips the handshake: what `initialize` answered earlier (manifests of the control lane). */
  readonly initializeResult?: JsonObject;
}
