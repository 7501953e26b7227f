import type { Answer, Ask, InputRequest } from '../ask.ts';
import type { DuolaneError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { Abortable, Items, ListOptions } from '../stream/types.ts';
import type { SourceTasks, ToolTask } from './task-types.ts';

export type { SourceTasks, TaskOptions, ToolTask } from './task-types.ts';
export type { MessageSendOptions, MessageTransport } from './transport-types.ts';

/**
 * A provider of tools. Lists and calls are pulled; breaking out of a loop cancels the upstream
 * request and waits for its end. A source has an optional member only if it has the capability.
 */
export interface ToolSource {
  readonly info: {
    readonly name: string;
    readonly version: string;
    readonly instructions?: string;
  };
  listTools(options?: ListOptions): Items<Tool>;
  /**
   * Calls a tool. Yields any number of `progress`, `partial` and `log` events, then exactly one
   * `result` or `input`, or `task` if the option `task` is set. Throws only if the call itself
   * failed (unknown tool, transport); a tool that fails, and arguments that its schema rejects,
   * give a `result` with `isError`.
   *
   * @example
   * ```ts
   * for await (const event of source.callTool({ id: '1', name: 'echo', args: { text: 'hi' } }))
   *   if (event.type === 'result') console.log(event.result.content);
   * ```
   */
  callTool(call: ToolCall, options?: CallOptions): AsyncIterable<ToolEvent>;
  listResources?(options?: ListOptions): Items<JsonObject>;
  listResourceTemplates?(options?: ListOptions): Items<JsonObject>;
  listPrompts?(options?: ListOptions): Items<JsonObject>;
  /** Yields the entries of `contents` in a `resources/read` result. */
  readResource?(
    uri: string,
    options?: AskOptions & { readonly offset?: number },
  ): AsyncIterable<JsonObject>;
  getPrompt?(name: string, args: JsonObject, options?: AskOptions): Promise<JsonObject>;
  complete?(request: JsonObject, options?: Abortable): Promise<JsonObject>;
  /**
   * Yields `listening` first, then changes. Changes that arrive while the reader is busy may be
   * reported once; a reconnect counts as a change of every list.
   */
  listen?(options?: SourceListenOptions): AsyncIterable<SourceChange>;
  /** The calls that became tasks; see `task` of `CallOptions`. */
  readonly tasks?: SourceTasks;
}

/** The options of `listen`. */
export interface SourceListenOptions extends Abortable {
  /** URIs of single resources whose changes are reported in addition to those of the lists. */
  readonly resources?: readonly string[];
}

/** For a source that several callers share. */
interface Attributed extends Abortable {
  /**
   * The caller of the request, where one connection serves several: any text, the same for each
   * request of a caller. A message of the server that names no request is delivered to a caller
   * only if no other caller has used the connection.
   */
  readonly caller?: string | undefined;
}

/** The options of a read or a prompt. */
export interface AskOptions extends Attributed {
  /**
   * Asks the person or program behind the request. It may throw `suspended`: let that error pass,
   * and the request is made again with the answers.
   */
  readonly ask?: Ask;
}

/** The options of a tool call. */
export interface CallOptions extends Attributed {
  /** Unix time in ms after which the call fails with `timeout`. */
  readonly deadline?: number | undefined;
  /** Whether the call may become a task; the source decides, and `task` is the last event. */
  readonly task?: boolean | undefined;
  /** The authenticated owner of the call, who alone finds its task. */
  readonly owner?: string | undefined;
}

/** One change of a source; `uri` names the resource of a `resource` change. */
export interface SourceChange {
  readonly type: 'listening' | 'tools' | 'resources' | 'prompts' | 'resource';
  readonly uri?: string;
}

/** A tool in the form of the MCP specification; unknown members are kept. */
export interface Tool extends JsonObject {
  readonly name: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  readonly annotations?: JsonObject;
}

/** A tool result in the form of the MCP specification; unknown members are kept. */
export interface ToolResult extends JsonObject {
  readonly content: readonly JsonObject[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

/** One call of a tool. */
export interface ToolCall {
  /**
   * The model's call id, if there is one. It stays the same when the call is repeated with answers,
   * so a tool may use it as an idempotency key.
   */
  readonly id: string;
  readonly name: string;
  readonly args: JsonObject;
  readonly meta?: JsonObject;
  /**
   * What the client of the call supports (`elicitation`, `sampling`, `roots`), if it is known. An
   * offer sets it; a server of the stateless protocol gets it in place of the dialled capabilities.
   */
  readonly clientCapabilities?: JsonObject;
  /** Answers to the questions of an earlier `input` event. Set them to repeat that call. */
  readonly answers?: readonly Answer[];
  /** The `state` of the earlier `input` event, unchanged. */
  readonly state?: string;
}

/** What a call yields: any number of `progress`, `partial` and `log`, then one of the others. */
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
  /** The last event: nothing is kept waiting. Repeat the call with the answers. */
  | { readonly type: 'input'; readonly requests: readonly InputRequest[]; readonly state?: string }
  /** The last event: the call goes on as a task. Only for a call with the option `task`. */
  | { readonly type: 'task'; readonly task: ToolTask }
  /** The last event. */
  | { readonly type: 'result'; readonly result: ToolResult };

/**
 * A source as a JSON-RPC server without a transport. The control lane uses it directly; stdio and
 * HTTP wrap it.
 */
export interface MessageEndpoint extends AsyncDisposable {
  /**
   * Takes a message of the client: a request, a notification or a response to one of our requests.
   * Returns the response to send, or `undefined` if none is needed (a notification, a response, a
   * cancelled request). Never rejects. When it resolves, the reader of `outgoing` has asked for the
   * next message after everything that the request sent before its response; a reader that writes
   * each message before it pulls the next one keeps the order.
   */
  receive(message: JsonObject, options?: ReceiveOptions): Promise<JsonObject | undefined>;
  /**
   * Progress, list changes and requests of the server, for one reader. The queue is bounded: a slow
   * reader slows the handlers, and without a reader further notifications are dropped.
   */
  readonly outgoing: AsyncIterable<JsonObject>;
  /**
   * Sends a request to the client (`ping`, `roots/list`, `sampling/createMessage`); its response
   * arrives through `receive`.
   */
  request(method: string, params?: JsonObject, options?: Abortable): Promise<JsonObject>;
}

/** Where a received message came from. */
export interface ReceiveOptions extends Abortable {
  /**
   * Receives what belongs to this request instead of `outgoing`: its progress, its log lines and
   * its requests to the client. It is awaited, so a slow function slows the handler.
   */
  readonly related?: (message: JsonObject) => Promise<void>;
  /**
   * The authenticated caller. The state of a call that waits for answers is valid for this owner
   * only.
   */
  readonly owner?: string | undefined;
}

/**
 * Functions as a ToolSource, for any number of sessions and transports at the same time. `register`
 * and `unregister` notify listeners of a change of `tools`. `register` replaces a tool of the same
 * name, which keeps its position in the list. It throws `invalid`, naming the tool, for an invalid
 * name or schema; the other tools stay.
 */
export interface ToolRegistry extends ToolSource {
  register(tool: ToolDefinition): void;
  unregister(name: string): boolean;
  /** Returns the tool as clients see it. */
  get(name: string): Tool | undefined;
  readonly size: number;
  /**
   * The tools that were given but are invalid, each with its error; the number of declared tools is
   * `size + problems.length`.
   */
  readonly problems: readonly ToolProblem[];
  listen(options?: SourceListenOptions): AsyncIterable<SourceChange>;
}

/** A tool that a registry did not accept, and why. */
export interface ToolProblem {
  readonly name: string;
  readonly error: DuolaneError;
}

/**
 * A schema of a tool's arguments: a zod 3 or 4 shape or object, any Standard Schema, or JSON
 * Schema.
 */
export type SchemaInput = object;

/** A tool and its handler, as `tool()` returns it. */
export interface ToolDefinition {
  readonly name: string;
  readonly description?: string;
  readonly title?: string;
  readonly inputSchema: SchemaInput;
  /** The JSON Schema of `structuredContent`, which clients see. */
  readonly outputSchema?: JsonObject;
  readonly annotations?: JsonObject;
  readonly _meta?: JsonObject;
  readonly handler: ToolHandler<never>;
  /**
   * The time limit of one run of the handler. After it the handler's signal aborts and the call
   * ends with `isError`. No limit by default.
   */
  readonly deadlineMs?: number;
  /**
   * How many handlers of this tool run at the same time; further calls wait in order. No limit by
   * default.
   */
  readonly concurrency?: number;
  /**
   * Whether calls may take long: then they become tasks, for clients that can handle them, if the
   * registry is offered with `withTasks`. `required`: clients that cannot are refused.
   */
  readonly long?: boolean | 'required';
}

/**
 * The function of a tool. It returns a value, a promise, or a stream that ends with a `result`
 * event or returns the result. An error becomes a result with `isError` and the text `Error:
 * <message>`; only `suspended`, which `ask` throws, becomes the `input` event.
 */
export type ToolHandler<Args> = (
  args: Args,
  ctx: ToolContext,
) => ToolReturn | Promise<ToolReturn> | AsyncIterable<ToolEvent, ToolReturn | void>;

/**
 * A result of a handler. A string is one text block. For `structuredContent` alone, a text block
 * with its JSON is added.
 */
export type ToolReturn = string | ToolResult | { readonly structuredContent: unknown };

/**
 * What a handler gets beside its arguments. A question keeps no stack alive: `ask` without an
 * answer ends the call with `input`, and the handler runs again when the answer arrives, seconds
 * later or after a restart, so there is only one code path. The `id` of a question is prefixed with
 * that of the call.
 */
export interface ToolContext {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly ask: Ask;
  /**
   * Reports progress. Resolves when the caller has taken it and never rejects, so it need not be
   * awaited.
   */
  progress(done: number, total?: number, message?: string): Promise<void>;
  /**
   * Continues the call as a task, for a handler that knows only now that it takes long. It works as
   * `ask` does: it rejects with `suspended`, and the handler runs again in the task, where it
   * resolves. It resolves immediately if the call cannot become a task.
   */
  continueAsTask(): Promise<void>;
  readonly meta?: JsonObject;
  /** What the client of the call supports; absent if it is not known. */
  readonly clientCapabilities?: JsonObject;
  /** `meta` and `id` under the names that handlers of the official SDKs use. */
  readonly _meta?: JsonObject;
  readonly requestId: string;
  /**
   * Sends `notifications/progress` or `notifications/message`; rejects with `unsupported` for
   * others.
   */
  readonly sendNotification: (notification: {
    readonly method: string;
    readonly params?: JsonObject;
  }) => Promise<void>;
  /**
   * Sends `elicitation/create`, `sampling/createMessage` or `roots/list` to the caller. It works as
   * `ask` does: the handler runs again with the response, so a handler must send its requests in
   * the same order each time.
   */
  readonly sendRequest: (
    request: { readonly method: string; readonly params?: JsonObject },
    schema?: unknown,
  ) => Promise<JsonObject>;
}

/** The options of every server side (`offerMessages`, `offerHttp`, `offerStdio`). */
export interface OfferMessagesOptions {
  /**
   * Answers the questions (`input`) of tools, after which the call is repeated. By default the
   * client of the call gets the questions.
   */
  readonly ask?: Ask;
  /** The number of items in one list response; 1,000 by default. */
  readonly pageSize?: number;
  /**
   * Signs the cursors and states that clients return. Give all replicas the same secret; it is
   * random by default.
   */
  readonly secret?: string | Uint8Array;
  /**
   * How many `subscriptions/listen` requests of one owner may be open at the same time; 10,000 by
   * default. They do not count against the 1,024 other requests of an owner at one endpoint.
   */
  readonly maxSubscriptions?: number;
  /**
   * Receives errors whose text the client does not get: `internal` errors, and errors of a source
   * that are not a DuolaneError. By default they are process warnings.
   */
  readonly onError?: (error: unknown) => void;
}

/**
 * How long a dialled server may take; `Infinity` removes a limit. Beyond a limit, the request is
 * cancelled and fails with `timeout`. Time that a person needs to answer or to log in does not
 * count, and neither does the time of a slow reader.
 */
export interface TimeLimits {
  /**
   * How long the server may be silent during a request; 60,000 by default. Progress, log lines and
   * partial results of a call begin it anew. A call with a `deadline` has only that limit.
   */
  readonly timeoutMs?: number;
  /** How long one call may take, whatever it reports; an hour by default. */
  readonly maxTotalMs?: number;
}

/** The options of every client side over JSON-RPC (`dialHttp`, `dialStdio`, `dialMessages`). */
export interface DialMessagesOptions extends Abortable, TimeLimits {
  /**
   * `stateless` is the revision 2026-07-28, which has no handshake and no sessions; `session` are
   * the revisions before it; `auto` tries the first and falls back to the others. The default is
   * `auto` over HTTP and `session` elsewhere.
   */
  readonly protocol?: 'auto' | 'session' | 'stateless';
  readonly clientInfo?: { readonly name: string; readonly version: string };
  /**
   * Our capabilities as a client: `elicitation`, `sampling`, `roots`. Requests of the server go to
   * `onRequest`. Without it, a request during a tool call becomes an `input` event of that call,
   * which stays open on the wire for an hour, or is repeated when its answers arrive later; a
   * request during a read or a prompt goes to the `ask` of that read or prompt. A request is
   * refused if several of our requests are open and it names none, and also if it names none and
   * several callers have used this connection.
   */
  readonly capabilities?: JsonObject;
  /**
   * Set this if all callers of this connection are one person: a message of the server that names
   * no request then goes to the only open call, of any caller. False by default.
   */
  readonly singleUser?: boolean;
  /** Handles requests of the server; an error becomes a JSON-RPC error. */
  readonly onRequest?: (
    method: string,
    params: JsonObject,
    options: Abortable,
  ) => Promise<JsonObject>;
  /**
   * The result of an earlier `initialize` (a manifest of the control lane). Skips the handshake.
   */
  readonly initializeResult?: JsonObject;
}
