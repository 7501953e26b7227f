import { CLIENT_DISCONNECTED } from '../../../../http/node-request.ts';
import { type JsonObject } from '../../../../json.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { isRpcRequest, RPC } from '../../../../wire/json-rpc.ts';
import type { OfferMessagesOptions, ToolSource } from '../../../types.ts';
import { META, metaOf, PROTOCOL_VERSIONS, STATELESS_VERSION } from '../../protocol-versions.ts';
import { offerMessages } from '../../server/offer-messages.ts';
import { isStateless } from '../../server/stateless-requests.ts';
import { mediaType } from '../message-body.ts';
import { type OriginGuardOptions, refuseForeignOrigin } from './origin-guard.ts';
import { ParamHeaders } from '../param-headers.ts';
import { postedMessage } from './read-post.ts';
import { refuseRequest } from './http-responses.ts';
import { HttpSession } from './http-session.ts';
import { postStateless, type Stateless } from './stateless-post.ts';

/** The limits of an MCP endpoint, and which hosts and origins it accepts. */
export interface McpHandlerOptions extends OfferMessagesOptions, OriginGuardOptions {
  /** The size limit of a message; 16 MiB by default. */
  readonly maxBodyBytes?: number;
  /**
   * How many sessions are open at the same time; 1,000 by default. A new session closes the one
   * that was idle longest, of the owner with the most sessions. If the new session's owner has the
   * most and none is idle, it is refused.
   */
  readonly maxSessions?: number;
  /**
   * How long a session without a connection is kept; 10 minutes by default. Its end aborts its
   * requests.
   */
  readonly idleMs?: number;
}

/** An MCP endpoint as a function of web types. */
export interface McpHandler extends AsyncDisposable {
  /**
   * Handles every HTTP method of the endpoint. The signal of the request aborts when the client
   * disconnects. Never rejects. A session, or a call that waits for answers, can be continued only
   * by the `owner` that started it.
   */
  readonly handle: (request: Request, owner?: string) => Promise<Response>;
  /** The number of open sessions. */
  readonly sessions: number;
}

/**
 * Serves a source at one Streamable HTTP endpoint, for any number of clients of every revision
 * since 2025-03-26; that of 2026-07-28 needs no session. The source is shared and stays open. A
 * client that does not read slows only its own requests. Requests from pages of other sites are
 * refused; authenticate callers before you call `handle`. Disposing ends all sessions.
 *
 * @example
 * ```ts
 * await using mcp = mcpHandler(createRegistry({ name: 'demo' }));
 * const response = await mcp.handle(new Request('http://localhost/mcp', { method: 'POST' }));
 * ```
 */
export function mcpHandler(source: ToolSource, options: McpHandlerOptions = {}): McpHandler {
  return new Handler(source, options);
}

/**
 * The bytes of responses that all sessions of one owner keep together. One caller may have all
 * sessions of a handler.
 */
const MAX_OWNER_KEPT_BYTES = 32 * 2 ** 20;

/** The response of a disposed handler to new clients. */
export const CLOSING = 'the server is closing; try again later';

class Handler implements McpHandler {
  readonly #source: ToolSource;
  readonly #options: McpHandlerOptions;
  readonly #stateless: Stateless;
  readonly #sessions = new Map<string, HttpSession>();
  readonly #sweeper: NodeJS.Timeout;
  readonly #onError: (error: unknown) => void;
  #disposed = false;

  constructor(source: ToolSource, options: McpHandlerOptions) {
    this.#source = source;
    this.#options = options;
    this.#onError = options.onError ?? reportUnexpected;
    this.#stateless = { end: offerMessages(source, options), params: new ParamHeaders() };
    const { idleMs = 600_000 } = options;
    this.#sweeper = setInterval(() => this.#sweep(idleMs), Math.min(idleMs, 30_000));
    this.#sweeper.unref();
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  readonly handle = async (request: Request, owner?: string): Promise<Response> => {
    try {
      return refuseForeignOrigin(request, this.#options) ?? (await this.#route(request, owner));
    } catch (error) {
      // A client that disconnects inside its request is not a failure of this server.
      if (error !== CLIENT_DISCONNECTED) this.#onError(error);
      return refuseRequest(500, 'internal error', RPC.internalError);
    }
  };

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#disposed = true;
    clearInterval(this.#sweeper);
    const sessions = [...this.#sessions.keys()];
    await Promise.all(sessions.map((id) => this.#close(id)));
    await this.#stateless.end[Symbol.asyncDispose]();
  }

  async #route(request: Request, owner: string | undefined): Promise<Response> {
    switch (request.method) {
      case 'POST':
        return this.#post(request, owner);
      case 'GET': {
        if (!accepts(request, 'text/event-stream'))
          return refuseRequest(406, 'the client must accept text/event-stream');
        const session = this.#session(request, owner);
        return session instanceof HttpSession
          ? session.get(request.headers.get('last-event-id'), request.signal)
          : session;
      }
      case 'DELETE': {
        const session = this.#session(request, owner);
        if (!(session instanceof HttpSession)) return session;
        await this.#close(session.id);
        return new Response(null, { status: 200 });
      }
      default:
        return notAllowed(request.method);
    }
  }

  async #post(request: Request, owner: string | undefined): Promise<Response> {
    if (!accepts(request, 'application/json') || !accepts(request, 'text/event-stream'))
      return refuseRequest(
        406,
        'the client must accept both application/json and text/event-stream',
      );
    if (mediaType(request) !== 'application/json')
      return refuseRequest(415, 'the content type must be application/json');
    const message = await postedMessage(request, this.#options.maxBodyBytes);
    if (message instanceof Response) return message;
    if (speaksStateless(request, message))
      return postStateless({ ...this.#stateless, owner }, message, request);
    if (isRpcRequest(message) && message.method === 'initialize')
      return this.#begin(message, owner, request.signal);
    const session = this.#session(request, owner);
    return session instanceof HttpSession ? session.post(message, request.signal) : session;
  }

  async #begin(
    message: JsonObject,
    owner: string | undefined,
    signal: AbortSignal,
  ): Promise<Response> {
    if (!(await this.#makeRoom(owner)))
      return refuseRequest(503, 'all sessions are in use; try again later', RPC.internalError);
    // Check again after the wait: a session that starts after `dispose` would never be closed.
    if (this.#disposed) return refuseRequest(503, CLOSING, RPC.internalError);
    const session = new HttpSession(this.#source, this.#options, owner, () =>
      this.#limitKept(owner),
    );
    this.#sessions.set(session.id, session);
    const response = await session.post(message, signal);
    if (session.version === '') {
      await this.#close(session.id);
      response.headers.delete('mcp-session-id');
    }
    return response;
  }

  /** Returns the session of a request, or the error response. */
  #session(request: Request, owner: string | undefined): HttpSession | Response {
    const version = request.headers.get('mcp-protocol-version');
    if (version === STATELESS_VERSION) return notAllowed(request.method);
    if (version !== null && !PROTOCOL_VERSIONS.some((known) => known === version))
      return refuseRequest(400, `unsupported protocol version "${version}"`);
    const id = request.headers.get('mcp-session-id');
    if (id === null)
      return refuseRequest(400, 'missing header Mcp-Session-Id; start with initialize');
    const session = this.#sessions.get(id);
    // A session of another owner is reported as missing, so that guessing ids reveals nothing.
    if (session && session.owner === owner) return session;
    return refuseRequest(404, 'session not found; start again with initialize', -32001);
  }

  /**
   * Closes a session to make room, of the owner with the most sessions. Otherwise one caller could
   * end the sessions of all others by opening new ones, or block them with sessions that are never
   * idle.
   */
  async #makeRoom(owner: string | undefined): Promise<boolean> {
    const { maxSessions = 1_000 } = this.#options;
    if (this.#sessions.size < maxSessions) return true;
    const byOwner = new Map<string | undefined, HttpSession[]>();
    for (const session of this.#sessions.values()) {
      const known = byOwner.get(session.owner);
      if (known) known.push(session);
      else byOwner.set(session.owner, [session]);
    }
    const own = byOwner.get(owner) ?? [];
    const candidates = [...byOwner.values()].reduce(
      (most, each) => (each.length > most.length ? each : most),
      own,
    );
    const isGreedy = candidates === own;
    const oldest = oldestOf(candidates.filter((session) => session.idle));
    const closing = oldest ?? (isGreedy ? undefined : oldestOf(candidates));
    if (closing) await this.#close(closing.id);
    return closing !== undefined;
  }

  /** Drops what the sessions of an owner keep, those that were used longest ago first. */
  #limitKept(owner: string | undefined): void {
    const own = [...this.#sessions.values()].filter((session) => session.owner === owner);
    let bytes = own.reduce((sum, { keptBytes }) => sum + keptBytes, 0);
    if (bytes <= MAX_OWNER_KEPT_BYTES) return;
    for (const session of own.toSorted((a, b) => a.usedAt - b.usedAt)) {
      if (bytes <= MAX_OWNER_KEPT_BYTES) return;
      bytes -= session.keptBytes;
      session.dropKept();
    }
  }

  #sweep(idleMs: number): void {
    for (const { id, idle, usedAt } of this.#sessions.values())
      if (idle && usedAt < performance.now() - idleMs) this.#close(id).catch(this.#onError);
  }

  async #close(id: string): Promise<void> {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    await session?.[Symbol.asyncDispose]();
  }
}

const oldestOf = (sessions: readonly HttpSession[]): HttpSession | undefined =>
  sessions.reduce<HttpSession | undefined>(
    (old, each) => (old && old.usedAt <= each.usedAt ? old : each),
    undefined,
  );

/**
 * Whether a message uses the stateless protocol: by its body, and by the header for messages
 * without a place for a version.
 */
function speaksStateless(request: Request, message: JsonObject): boolean {
  if (request.headers.get('mcp-protocol-version') === STATELESS_VERSION) return true;
  return isRpcRequest(message)
    ? isStateless(message.method, message.params)
    : metaOf(message['params'])[META.version] !== undefined;
}

const accepts = (request: Request, type: string): boolean => {
  const accept = request.headers.get('accept') ?? '';
  return accept.includes(type) || accept.includes('*/*');
};

const notAllowed = (method: string): Response => {
  const response = refuseRequest(405, `method ${method} is not allowed`);
  response.headers.set('allow', 'POST, GET, DELETE');
  return response;
};
