import type { JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import {
  CARD_PATHS,
  agentCard,
  cardResponse,
  DEFAULT_MODES,
  type AgentDescription,
  type GrpcInterface,
} from '../protocol/agent-card.ts';
import type { Version } from '../protocol/dialect.ts';
import { RESUME_EXTENSION } from '../protocol/model.ts';
import { readVersion } from './read-request.ts';
import { traceContext } from '../../http/trace-context.ts';
import { serveJsonRpc } from './json-rpc-binding.ts';
import { Operations, type Caller, type OperationsOptions } from './task-operations.ts';
import type { Reply, ServerContext } from './dispatch-operation.ts';
import { PushConfigs, type PushOptions } from '../push/push-configs.ts';
import { isRestPath, serveRest } from './rest-binding.ts';
import { cardSignature, type CardKey } from '../protocol/card-signature.ts';
import { StreamRegistry } from '../../http/stream-registry.ts';

/** Options of `a2aServer`. */
export interface A2AServerOptions extends OperationsOptions {
  readonly description: AgentDescription;
  /** The URL at which callers reach this agent; the card names it. */
  readonly url: string;
  /**
   * The address and tenant of the gRPC binding (`duolane/a2a/grpc`), if served; the card names it.
   */
  readonly grpc?: GrpcInterface;
  /**
   * The card for callers that request no version. `hybrid` (default): the members of 0.3 and 1.0,
   * which every client can read. `pure`: the members of 1.0 only.
   */
  readonly card?: 'hybrid' | 'pure';
  /** Returns what the extended card of a caller adds; without it the agent has no extended card. */
  readonly extendedCard?: (caller: Caller) => Partial<AgentDescription>;
  /** The key that signs the cards. */
  readonly cardKey?: CardKey;
  /**
   * Called before a message becomes a task. If it returns parts, they are the reply and no task is
   * created.
   */
  readonly reply?: Reply;
  /** Push notifications (webhooks); `false` disables them. */
  readonly push?: PushOptions | false;
  /** Sends a comment line on a stream that was silent for this time; 15 s by default. */
  readonly heartbeatMs?: number;
  /** The largest request body; 16 MiB by default. */
  readonly maxBodyBytes?: number;
  /** The most parts of one message; 1000 by default. */
  readonly maxParts?: number;
  /** The most open streams of one caller; 5000 by default. */
  readonly maxStreams?: number;
  /** Gets internal failures, whose text callers do not see. */
  readonly onError?: (error: unknown) => void;
}

/** One agent as an A2A server. Disposing it drains it and stops push deliveries. */
export interface A2AServer extends AsyncDisposable {
  /**
   * Handles a request at or under the agent's URL: JSON-RPC at it, REST under it (0.3 under `/v1`),
   * the card at `/.well-known/agent-card.json`. `path` is the part after the agent's URL, for a
   * server that is mounted at another path than `url` names. `owner` is the caller, which the
   * application must have authenticated; it sees only its own tasks.
   */
  handle(
    request: Request,
    options?: { readonly path?: string; readonly owner?: string | undefined },
  ): Promise<Response>;
  /** Responds with the card, in the version that the request names. */
  card(request: Request): Response;
  /**
   * Closes open streams with `retry:`, so that clients reconnect. Push deliveries continue until
   * dispose.
   */
  drain(): void;
}

const contexts = new WeakMap<A2AServer, ServerContext>();

/** The context of a server, for a binding outside of this folder such as gRPC. */
export const serverContextOf = (server: A2AServer): ServerContext =>
  contexts.get(server) as ServerContext;

/**
 * Creates an A2A server, 0.3 and 1.0, for one agent. Its `handle` takes a web `Request` and returns
 * a `Response`, so it can be mounted in any HTTP server; `serve` of `duolane/serve` does all of
 * this.
 *
 * @example
 * const server = a2aServer({ agent: 'echo', log, runner, url, description });
 * const response = await server.handle(request, { owner: 'ada' });
 */
export function a2aServer(options: A2AServerOptions): A2AServer {
  const { description, url, log, agent, onError = () => {} } = options;
  const { extendedCard, push: pushOptions = {} } = options;
  const cardOf = (more: Partial<AgentDescription>, shape: Version | 'hybrid'): JsonObject => {
    const full = { ...description, ...more };
    const offered = {
      url,
      pushNotifications: pushOptions !== false,
      extendedCard: extendedCard !== undefined,
      grpc: options.grpc,
    };
    const card = agentCard(full, { ...offered, shape });
    if (!options.cardKey) return card;
    const signed = agentCard(full, { ...offered, shape: '1.0' });
    return { ...card, signatures: [cardSignature(signed, options.cardKey)] };
  };
  // Created once: some signature algorithms are random, and a new signature would change the ETag.
  const cards = {
    '1.0': cardOf({}, '1.0'),
    '0.3': cardOf({}, '0.3'),
    hybrid: cardOf({}, 'hybrid'),
  };
  const base = new URL(url).pathname.replace(/\/$/, '');
  const operations = new Operations(options);
  // After everything that may throw: it starts deliveries immediately, and no one would stop them.
  const push =
    pushOptions === false
      ? undefined
      : new PushConfigs(log, agent, {
          onError,
          ...(options.text && { text: options.text }),
          ...pushOptions,
        });
  const streams = new StreamRegistry(options.maxStreams ?? 5000);
  const declared = description.extensions ?? [];
  const context: ServerContext = {
    operations,
    push,
    reply: options.reply,
    extendedCard: extendedCard && ((caller, shape) => cardOf(extendedCard(caller), shape)),
    inputModes: description.inputModes ?? DEFAULT_MODES,
    maxParts: options.maxParts ?? 1000,
    streams,
    heartbeatMs: options.heartbeatMs ?? 15_000,
    maxBodyBytes: options.maxBodyBytes ?? 16 * 1024 * 1024,
    extensions: [RESUME_EXTENSION, ...declared.map(({ uri }) => uri)],
    requiredExtensions: declared.filter(({ required }) => required).map(({ uri }) => uri),
    onError,
  };
  const since = new Date();
  const serveCard = (request: Request): Response => {
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return new Response('Read the card with GET\n', {
        status: 405,
        headers: { allow: 'GET, HEAD' },
      });
    const shape = versionOf(request) ?? (options.card === 'pure' ? '1.0' : 'hybrid');
    return cardResponse(cards[shape], request, since);
  };
  const server: A2AServer = {
    async handle(request, { path = pathBehind(base, request), owner } = {}) {
      const caller = { ...(owner !== undefined && { owner }), trace: traceContext(request) };
      if (CARD_PATHS.includes(path)) return serveCard(request);
      if (isRestPath(path)) return serveRest(request, path, caller, context);
      if (path !== '' && path !== '/') return new Response('Not found\n', { status: 404 });
      if (request.method === 'POST') return serveJsonRpc(request, caller, context);
      return new Response('Send JSON-RPC requests with POST\n', {
        status: 405,
        headers: { allow: 'POST' },
      });
    },
    card: serveCard,
    drain: () => streams.drain(),
    [Symbol.asyncDispose]: disposeOnce(async () => {
      streams.drain();
      await push?.[Symbol.asyncDispose]();
    }),
  };
  contexts.set(server, context);
  return server;
}

function pathBehind(base: string, request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.startsWith(base) ? pathname.slice(base.length) : pathname;
}

/**
 * The version that a request for the card names; undefined if it is unknown: the card is for
 * everyone.
 */
function versionOf(request: Request): Version | undefined {
  try {
    return readVersion(request);
  } catch {
    // An unknown version gets the default card, which says what the server supports.
    return undefined;
  }
}
