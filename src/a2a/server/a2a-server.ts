import type { JsonObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import {
  CARD_PATHS,
  agentCard,
  cardResponse,
  DEFAULT_MODES,
  RESUME_EXTENSION,
  type AgentDescription,
  type GrpcInterface,
} from '../protocol/agent-card.ts';
import type { Version } from '../protocol/dialect.ts';
import { readVersion } from './read-request.ts';
import { traceContext } from '../../http/trace-context.ts';
import { serveJsonRpc } from './json-rpc-binding.ts';
import { Operations, type Caller, type OperationsOptions } from './task-operations.ts';
import type { Reply, ServerContext } from './dispatch-operation.ts';
import { PushConfigs, type PushOptions } from '../push/push-configs.ts';
import { isRestPath, serveRest } from './rest-binding.ts';
import { cardSignature, type CardKey } from '../protocol/card-signature.ts';
import { StreamRegistry } from '../../http/stream-registry.ts';

export interface A2AServerOptions extends OperationsOptions {
  readonly description: AgentDescription;
  /** Where callers reach this agent; it stands in the card. */
  readonly url: string;
  /** Where gRPC is served too (`duolane/a2a/grpc`), and as which tenant; it stands in the card. */
  readonly grpc?: GrpcInterface;
  /**
   * What callers get who do not say which version they want. `hybrid` (default): the members of 0.3
   * and 1.0, which every client can read. `pure`: those of 1.0 alone.
   */
  readonly card?: 'hybrid' | 'pure';
  /** Who may see more gets this card; without it there is none. */
  readonly extendedCard?: (caller: Caller) => Partial<AgentDescription>;
  /** Cards are signed with it. */
  readonly cardKey?: CardKey;
  /** Asked before a message becomes a task: parts are answered as a plain message, and no task is made. */
  readonly reply?: Reply;
  /** Webhooks; `false` switches them off. */
  readonly push?: PushOptions | false;
  /** A comment line goes out on a stream that was silent for so long. */
  readonly heartbeatMs?: number;
  readonly maxBodyBytes?: number;
  /** Parts of one message. */
  readonly maxParts?: number;
  /** Open streams of one caller. */
  readonly maxStreams?: number;
  /** Failures of ours, which callers are not told in full. */
  readonly onError?: (error: unknown) => void;
}

export interface A2AServer extends AsyncDisposable {
  /**
   * Answers everything at and behind the agent's URL: JSON-RPC on it, REST behind it (0.3 behind
   * `/v1`), the card at `/.well-known/agent-card.json`. `path` is what follows the agent's URL, for
   * a server that is mounted elsewhere than `url` says. Who asks must be known by now: `owner` sees
   * their own tasks only.
   */
  handle(
    request: Request,
    options?: { readonly path?: string; readonly owner?: string | undefined },
  ): Promise<Response>;
  card(request: Request): Response;
  /** Closes the open streams with a hint when to come back. Push delivery stops when disposed. */
  drain(): void;
}

const bindings = new WeakMap<A2AServer, ServerContext>();

/** What a binding of its own needs of a server, such as gRPC. */
export const bindingOf = (server: A2AServer): ServerContext =>
  bindings.get(server) as ServerContext;

/** An agent behind A2A 0.3 and 1.0, as one function of a web request: mount it wherever you serve. */
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
  // Made once: a signature may be another each time, and a cache would take it for another card.
  const cards = {
    '1.0': cardOf({}, '1.0'),
    '0.3': cardOf({}, '0.3'),
    hybrid: cardOf({}, 'hybrid'),
  };
  const base = new URL(url).pathname.replace(/\/$/, '');
  const operations = new Operations(options);
  // Behind everything that may throw: it begins to tell receivers at once.
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
  const binding: ServerContext = {
    operations,
    push,
    reply: options.reply,
    extendedCard:
      extendedCard &&
      ((caller, version) => cardOf(extendedCard(caller), version === '1.0' ? '1.0' : 'hybrid')),
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
      return new Response('A card is read with GET\n', {
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
      if (isRestPath(path)) return serveRest(request, path, caller, binding);
      if (path !== '' && path !== '/') return new Response('Not found\n', { status: 404 });
      if (request.method === 'POST') return serveJsonRpc(request, caller, binding);
      return new Response('POST JSON-RPC here\n', { status: 405, headers: { allow: 'POST' } });
    },
    card: serveCard,
    drain: () => streams.drain(),
    [Symbol.asyncDispose]: disposeOnce(async () => {
      streams.drain();
      await push?.[Symbol.asyncDispose]();
    }),
  };
  bindings.set(server, binding);
  return server;
}

function pathBehind(base: string, request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.startsWith(base) ? pathname.slice(base.length) : pathname;
}

// The card is for those who do not know yet what is spoken here, so no version is refused.
function versionOf(request: Request): Version | undefined {
  try {
    return readVersion(request);
  } catch {
    // The request itself is answered with this error; here only the label of a metric is missing.
    return undefined;
  }
}
