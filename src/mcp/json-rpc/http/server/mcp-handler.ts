import { CLIENT_DISCONNECTED } from '../../../../http/node-request.ts';
import { type JsonObject } from '../../../../json.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { isRpcRequest, RPC } from '../../../../wire/json-rpc.ts';
import type { OfferMessagesOptions, ToolSource } from '../../../types.ts';
import {
  BATCH_VERSION,
  META,
  metaOf,
  PROTOCOL_VERSIONS,
  STATELESS_VERSION,
} from '../../protocol-versions.ts';
import { offerStateless } from '../../server/offer-messages.ts';
import { isStateless } from '../../server/stateless-requests.ts';
import { mediaType } from '../message-body.ts';
import { type OriginGuardOptions, refuseForeignOrigin } from './origin-guard.ts';
import { ParamHeaders } from '../param-headers.ts';
import { postedMessages } from './read-post.ts';
import { RunningBytes } from './running-bytes.ts';
import { refuseRequest } from './http-responses.ts';
import {
  type AuthorizedRequest,
  authorize,
  checkAuthorization,
  type McpAuthorization,
} from './authorization.ts';
import { HttpSession } from './http-session.ts';
import { postStateless } from './stateless-post.ts';

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
  /** Requires a token of every request; its owner is the owner of the request. */
  readonly authorization?: McpAuthorization;
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
  const { onError = reportUnexpected, idleMs = 600_000, maxSessions = 1_000 } = options;
  const { authorization } = options;
  if (authorization) checkAuthorization(authorization);
  const stateless = { end: offerStateless(source, options), params: new ParamHeaders() };
  const sessions = new Map<string, HttpSession>();
  const running = new RunningBytes();
  let disposed = false;

  const close = async (id: string): Promise<void> => {
    const session = sessions.get(id);
    sessions.delete(id);
    await session?.[Symbol.asyncDispose]();
  };
  const sweep = (): void => {
    for (const { id, idle, usedAt } of sessions.values())
      if (idle && usedAt < performance.now() - idleMs) close(id).catch(onError);
  };
  const sweeper = setInterval(sweep, Math.min(idleMs, 30_000)).unref();

  /**
   * Closes a session to make room, of the owner with the most sessions. Otherwise one caller could
   * end the sessions of all others by opening new ones, or block them with sessions that are never
   * idle.
   */
  const makeRoom = async (owner: string | undefined): Promise<boolean> => {
    if (sessions.size < maxSessions) return true;
    const byOwner = new Map<string | undefined, HttpSession[]>();
    for (const session of sessions.values()) {
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
    if (closing) await close(closing.id);
    return closing !== undefined;
  };

  /** Drops what the sessions of an owner keep, those that were used longest ago first. */
  const limitKept = (owner: string | undefined): void => {
    const own = [...sessions.values()].filter((session) => session.owner === owner);
    let bytes = own.reduce((sum, { keptBytes }) => sum + keptBytes, 0);
    for (const session of own.toSorted((one, other) => one.usedAt - other.usedAt)) {
      if (bytes <= MAX_OWNER_KEPT_BYTES) return;
      bytes -= session.keptBytes;
      session.dropKept();
    }
  };

  const begin = async (
    message: JsonObject,
    owner: string | undefined,
    signal: AbortSignal,
    onEnd: () => void,
  ): Promise<Response> => {
    if (!(await makeRoom(owner)))
      return refuseRequest(503, 'all sessions are in use; try again later', RPC.internalError);
    // Check again after the wait: a session that starts after `dispose` would never be closed.
    if (disposed) return refuseRequest(503, CLOSING, RPC.internalError);
    const session = new HttpSession(source, options, {
      owner,
      onKept: () => limitKept(owner),
      onEnd: (id) => {
        close(id).catch(onError);
      },
    });
    sessions.set(session.id, session);
    const response = await session.post(message, signal, onEnd);
    if (session.version === '') {
      await close(session.id);
      response.headers.delete('mcp-session-id');
    }
    return response;
  };

  /** Handles a request in its session, or returns the error response. */
  const inSession = async (
    { method, headers }: Request,
    owner: string | undefined,
    run: (session: HttpSession) => Response | Promise<Response>,
  ): Promise<Response> => {
    const version = headers.get('mcp-protocol-version');
    if (version === STATELESS_VERSION) return notAllowed(method);
    const id = headers.get('mcp-session-id');
    const session = id === null ? undefined : sessions.get(id);
    const isKnown =
      version === null ||
      version === session?.version ||
      PROTOCOL_VERSIONS.some((known) => known === version);
    if (!isKnown) return refuseRequest(400, `unsupported protocol version "${version}"`);
    if (id === null)
      return refuseRequest(400, 'missing header Mcp-Session-Id; start with initialize');
    // A session of another owner is reported as missing, so that guessing ids reveals nothing.
    if (session && session.owner === owner) return run(session);
    return refuseRequest(404, 'session not found; start again with initialize', -32001);
  };

  const post = async (
    request: Request,
    owner: string | undefined,
    authorized: AuthorizedRequest | undefined,
  ): Promise<Response> => {
    if (!accepts(request, 'application/json') || !accepts(request, 'text/event-stream'))
      return refuseRequest(
        406,
        'the client must accept both application/json and text/event-stream',
      );
    if (mediaType(request) !== 'application/json')
      return refuseRequest(415, 'the content type must be application/json');
    const posted = await postedMessages(request, options.maxBodyBytes);
    if (posted instanceof Response) return posted;
    const { messages, isBatch } = posted;
    for (const each of messages) {
      const refused = authorized?.refuse(each);
      if (refused) return refused;
    }
    const end = running.take(owner, posted.length);
    if (!end) return refuseRequest(503, TOO_MUCH, RPC.internalError);
    const [message] = messages;
    // A request may go on after its response has begun, or its client has disconnected.
    let goesOn = false;
    const { signal } = request;
    try {
      if (isBatch)
        return await inSession(request, owner, (session) => {
          if (session.version !== BATCH_VERSION) return refuseBatch();
          goesOn = true;
          return session.postBatch(messages, signal, end);
        });
      if (speaksStateless(request, message)) {
        goesOn = true;
        return await postStateless({ ...stateless, owner, onEnd: end }, message, request);
      }
      if (isRpcRequest(message) && message.method === 'initialize')
        return await begin(message, owner, signal, end);
      return await inSession(request, owner, (session) => {
        goesOn = true;
        return session.post(message, signal, end);
      });
    } finally {
      if (!goesOn) end();
    }
  };

  const route = async (request: Request, given: string | undefined): Promise<Response> => {
    const authorized = authorization && (await authorize(request, authorization, onError));
    if (authorized instanceof Response) return authorized;
    const owner = authorized?.owner ?? given;
    switch (request.method) {
      case 'POST':
        return post(request, owner, authorized);
      case 'GET':
        if (!accepts(request, 'text/event-stream'))
          return refuseRequest(406, 'the client must accept text/event-stream');
        return inSession(request, owner, (session) =>
          session.get(request.headers.get('last-event-id'), request.signal),
        );
      case 'DELETE':
        return inSession(request, owner, async ({ id }) => {
          await close(id);
          return new Response(null, { status: 200 });
        });
      default:
        return notAllowed(request.method);
    }
  };

  return {
    get sessions() {
      return sessions.size;
    },
    async handle(request, owner) {
      try {
        return refuseForeignOrigin(request, options) ?? (await route(request, owner));
      } catch (error) {
        // A client that disconnects inside its request is not a failure of this server.
        if (error !== CLIENT_DISCONNECTED) onError(error);
        return refuseRequest(500, 'internal error', RPC.internalError);
      }
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      disposed = true;
      clearInterval(sweeper);
      await Promise.all([...sessions.keys()].map(close));
      await stateless.end[Symbol.asyncDispose]();
    }),
  };
}

/**
 * The bytes of responses that all sessions of one owner keep together. One caller may have all
 * sessions of a handler.
 */
const MAX_OWNER_KEPT_BYTES = 32 * 2 ** 20;

/** The response to a request that exceeds the memory of running requests. */
export const TOO_MUCH = 'the requests that are running take too much memory; try again later';

/** The response of a disposed handler to new clients. */
export const CLOSING = 'the server is closing; try again later';

const refuseBatch = (): Response =>
  refuseRequest(
    400,
    `batches exist only in sessions of ${BATCH_VERSION}; send one message at a time`,
    RPC.invalidRequest,
  );

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
