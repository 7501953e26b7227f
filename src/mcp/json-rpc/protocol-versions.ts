import { CALLER } from '../sources/caller-key.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';

/** The revision of the stateless protocol: every request carries the information of its client. */
export const STATELESS_VERSION = '2026-07-28';

/**
 * The revisions of the session protocol, newest first. A server offers the first to a client that
 * asks for an unknown one.
 */
export const PROTOCOL_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;

/** The only revision with batches: a body may be an array of messages. */
export const BATCH_VERSION = '2025-03-26';

/** The keys in `_meta` that the stateless protocol defines. */
export const META = {
  version: 'io.modelcontextprotocol/protocolVersion',
  client: 'io.modelcontextprotocol/clientInfo',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  logLevel: 'io.modelcontextprotocol/logLevel',
  server: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const;

/**
 * Error codes that only the stateless protocol has: a server that sends one of them supports it.
 */
export const VERSION_ERRORS = {
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;

/** Returns the JSON-RPC code of a peer's error response, if the error came from one. */
export function rpcCodeOf({ cause }: Error): unknown {
  return asObject(asObject(cause)['error'])['code'];
}

/** The `_meta` member of parameters, or an empty object. */
export const metaOf = (params: unknown): JsonObject => asObject(asObject(params)['_meta']);

const OF_A_HOP: ReadonlySet<string> = new Set([...Object.values(META), CALLER]);

/**
 * Returns metadata without the members that belong to one connection; the next connection has its
 * own. Most metadata has none of them and is returned as it is: every tool call comes here.
 */
export function withoutConnectionMeta(meta: JsonObject): JsonObject {
  for (const key in meta) if (OF_A_HOP.has(key)) return keptOf(meta);
  return meta;
}

function keptOf(meta: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(meta).filter(([key]) => !OF_A_HOP.has(key)));
}

/** Returns a result without the members that the stateless protocol adds. */
export function bare(result: JsonObject): JsonObject {
  const { resultType: _, _meta: meta, ...rest } = result;
  const kept = isObject(meta) ? withoutConnectionMeta(meta) : {};
  return { ...rest, ...(Object.keys(kept).length > 0 && { _meta: kept }) };
}

/**
 * The `_meta` key in which an agent CLI sends the model's id of a call; our clients do the same.
 */
export const CALL_ID = 'claudecode/toolUseId';
