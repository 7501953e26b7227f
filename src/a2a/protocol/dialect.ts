import { isObject, type JsonObject } from '../../json.ts';
import type { A2AMessage, A2ATask, PushConfig, A2AStreamEvent, A2ATaskPage } from './model.ts';

/** A version of the A2A protocol. */
export type Version = '0.3' | '1.0';

/** An operation of A2A, under one name for all bindings and versions. */
export type Operation =
  | 'send'
  | 'stream'
  | 'get'
  | 'list'
  | 'cancel'
  | 'subscribe'
  | 'createPush'
  | 'getPush'
  | 'listPush'
  | 'deletePush'
  | 'extendedCard';

/** The result of an operation that does not stream. */
export type Result =
  | {
      readonly kind: 'sent';
      readonly sent: { readonly task: A2ATask } | { readonly message: A2AMessage };
    }
  | { readonly kind: 'task'; readonly task: A2ATask }
  | { readonly kind: 'page'; readonly page: A2ATaskPage }
  | { readonly kind: 'pushConfig'; readonly config: PushConfig }
  | { readonly kind: 'pushConfigs'; readonly configs: readonly PushConfig[] }
  | { readonly kind: 'card'; readonly card: JsonObject }
  | { readonly kind: 'nothing' };

/**
 * The server's codec for one version and binding. Inside the server there is only 1.0: `decode`
 * translates parameters to it, so that one set of checks validates them, and `encode` and
 * `encodeEvent` translate results from it.
 */
export interface Dialect {
  readonly version: Version;
  decode(operation: Operation, params: JsonObject): JsonObject;
  encode(result: Result): unknown;
  /** `last`: the stream closes after this event. */
  encodeEvent(event: A2AStreamEvent, last: boolean): unknown;
}

/** A2A 1.0, the same in JSON-RPC and REST. */
export const DIALECT_10: Dialect = {
  version: '1.0',
  decode: (_operation, params) => camelCase(params),
  encode: (result) => {
    switch (result.kind) {
      case 'sent':
        return result.sent;
      case 'task':
        return result.task;
      case 'page':
        return result.page;
      case 'pushConfig':
        return result.config;
      case 'pushConfigs':
        return { configs: result.configs, nextPageToken: '' };
      case 'card':
        return result.card;
      case 'nothing':
        return {};
    }
  },
  encodeEvent: (event) => event,
};

/** Members with free JSON of the caller: their contents are never renamed. */
const FREE = new Set(['metadata', 'data', 'params']);

/**
 * Renames members from snake_case to camelCase. The JSON form of protobuf allows both, and a parser
 * must accept both. Returns the object itself if there is nothing to rename.
 */
export function camelCase(object: JsonObject): JsonObject {
  return hasUnderscore(object) ? renamed(object) : object;
}

function hasUnderscore(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(value)) return value.some(hasUnderscore);
  const object = value as JsonObject;
  for (const name of Object.keys(object))
    if (name.includes('_') || (!FREE.has(name) && hasUnderscore(object[name]))) return true;
  return false;
}

function renamed(object: JsonObject): JsonObject {
  const members = Object.entries(object).map(([name, member]) => [
    name.includes('_')
      ? name.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase())
      : name,
    FREE.has(name) ? member : camelCaseIn(member),
  ]);
  return Object.fromEntries(members) as JsonObject;
}

/** Whether an object has snake_case names. Some callers that write them cannot read camelCase. */
export const isSnakeCase = (object: JsonObject): boolean =>
  Object.entries(object).some(
    ([name, member]) =>
      /[a-z]_[a-z]/.test(name) || (!FREE.has(name) && isObject(member) && isSnakeCase(member)),
  );

/** The same dialect, with snake_case names in responses and events of a message. */
export const inSnakeCase = (dialect: Dialect): Dialect => ({
  ...dialect,
  encode: (result) =>
    result.kind === 'sent' ? snakeCaseIn(dialect.encode(result)) : dialect.encode(result),
  encodeEvent: (event, last) => snakeCaseIn(dialect.encodeEvent(event, last)),
});

function snakeCaseIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snakeCaseIn);
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, member]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    FREE.has(name) ? member : snakeCaseIn(member),
  ]);
  return Object.fromEntries(members) as JsonObject;
}

function camelCaseIn(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelCaseIn);
  return isObject(value) ? renamed(value) : value;
}
