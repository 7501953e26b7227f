import { CALLER } from '../caller.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** The revision without a handshake: every request says who asks and what it can do. */
export const STATELESS_VERSION = '2026-07-28';

/** Newest first: what we answer to a client that asks for one we do not know. */
export const PROTOCOL_VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;

/** Members of `_meta` that the stateless revision gives a meaning. */
export const META = {
  version: 'io.modelcontextprotocol/protocolVersion',
  client: 'io.modelcontextprotocol/clientInfo',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  logLevel: 'io.modelcontextprotocol/logLevel',
  server: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const;

/** Errors of the stateless revision that are its own: a server that says one speaks it. */
export const VERSION_ERRORS = {
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const;

/** The number that a peer gave its refusal, if it gave one. */
export function rpcCodeOf({ cause }: Error): unknown {
  const { error } = (cause ?? {}) as { error?: unknown };
  return isObject(error) ? error['code'] : undefined;
}

export const metaOf = (params: unknown): JsonObject =>
  isObject(params) && isObject(params['_meta']) ? params['_meta'] : {};

const OF_A_HOP: ReadonlySet<string> = new Set([...Object.values(META), CALLER]);

/** Metadata without what belongs to one connection: the next has its own. */
export function withoutConnectionMeta(meta: JsonObject): JsonObject {
  const kept = Object.entries(meta).filter(([key]) => !OF_A_HOP.has(key));
  return Object.fromEntries(kept);
}

/** A result as it was before the revision's own members were added. */
export function bare(result: JsonObject): JsonObject {
  const { resultType: _, _meta: meta, ...rest } = result;
  const kept = isObject(meta) ? withoutConnectionMeta(meta) : {};
  return { ...rest, ...(Object.keys(kept).length > 0 && { _meta: kept }) };
}

/** Where an agent CLI puts the model's own id of the call; our own ends do the same. */
export const CALL_ID = 'claudecode/toolUseId';
