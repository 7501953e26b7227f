import { unsupported } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import type { RpcRequest } from '../../wire/json-rpc.ts';
import type { MessageTransport, ToolSource } from '../types.ts';

/** The options of one stateless request. */
export interface ExchangeOptions extends Abortable {
  /** Receives the messages before the response. It is awaited. */
  readonly onMessage: (message: JsonObject) => Promise<void>;
}

/**
 * The server behind a dialled source, for a bridge: each client of an offer gets a connection of
 * its own, and its messages are passed on unchanged. So capabilities, names, log levels and
 * questions belong to that client and to no other.
 */
export interface Upstream {
  /** The kind of protocol that the dialled connection uses; `undefined` if it is not known. */
  readonly protocol?: 'session' | 'stateless' | undefined;
  /** Whether a connection that was lost is opened again for the same client. */
  readonly reopens: boolean;
  /** Opens a connection for one client. */
  open(options: Abortable): Promise<MessageTransport>;
  /**
   * Sends one request of the stateless protocol and returns its response; an abort cancels it.
   * Absent if the transport has no stream for each request.
   */
  exchange?(message: RpcRequest, options: ExchangeOptions): Promise<JsonObject>;
  /** Sends one notification of the stateless protocol; present with `exchange`. */
  notify?(message: JsonObject): Promise<void>;
}

/**
 * Which sources are connections to one server. The source itself is the key: a wrapper that checks,
 * counts or changes calls is another object, and is never passed by.
 */
const UPSTREAMS = new WeakMap<ToolSource, Upstream>();

/** The server behind a source that was dialled; `undefined` for all others. */
export const upstreamOf = (source: ToolSource): Upstream | undefined => UPSTREAMS.get(source);

/** Remembers the server behind a source. Returns the source. */
export function withUpstream<T extends ToolSource>(source: T, upstream: Upstream): T {
  UPSTREAMS.set(source, upstream);
  return source;
}

/** Opens a transport for JSON-RPC messages to a server. */
export type ConnectMessages = (options: Abortable) => Promise<MessageTransport>;

/**
 * A server that is reached through transports of your own, as a source that can be offered over
 * JSON-RPC and the tunnel of gRPC: `connect` is called for each client, and every message passes
 * unchanged in both directions. When the connection ends, so does that of its client. The source
 * itself has no lists and no calls; use `dialMessages` for those.
 *
 * @example
 * ```ts
 * await using offered = await offerHttp(relaySource(connect));
 * ```
 */
export const relaySource = (connect: ConnectMessages): ToolSource =>
  onlyRelayed({ reopens: false, open: connect });

/** Sources without lists and calls. */
const RELAYED = new WeakSet<ToolSource>();

/** Whether a source has lists and calls of its own. */
export const canTranslate = (source: ToolSource): boolean => !RELAYED.has(source);

/** A source that only an offer can use. */
export function onlyRelayed(upstream: Upstream): ToolSource {
  const refuse = (): never => {
    throw unsupported(
      'a relayed source has no lists and no calls of its own; offer it, or use dialMessages',
    );
  };
  const source: ToolSource = {
    info: { name: 'relay', version: '0' },
    listTools: refuse,
    callTool: refuse,
  };
  RELAYED.add(source);
  return withUpstream(source, upstream);
}
