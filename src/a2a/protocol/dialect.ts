import { isObject, type JsonObject } from '../../json.ts';
import { REASONS, type A2AError, type A2AErrorReason } from './a2a-errors.ts';
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

/** Where the versions differ beyond their spelling. */
export interface VersionRules {
  readonly version: Version;
  /** The header that names extensions. Some servers of 0.3 read no other than that of 0.3. */
  readonly extensionHeader: string;
  /** The media type of a push notification. */
  readonly mediaType: string;
  /** The errors for a caller without a required extension, and for an agent without this card. */
  readonly missingExtension: A2AErrorReason;
  readonly missingCard: A2AErrorReason;
  /** The shape of the extended card. */
  readonly extendedCard: '1.0' | 'hybrid';
  /** Whether a caller can subscribe to a task that has ended. */
  readonly subscribesEnded: boolean;
  /** Whether clients read an error of a streaming method as a stream too. */
  readonly streamsErrors: boolean;
  /** Whether a push notification is the complete task, sent when its state has changed. */
  readonly pushesTasks: boolean;
  /**
   * The id of a push config without one; a new id if undefined. Clients of 0.3 read their config
   * without an id, or with this one.
   */
  readonly defaultPushId: string | undefined;
  /** The `data` of a JSON-RPC error. */
  errorData(error: A2AError): unknown;
  /** The body of a REST error. */
  restError(error: A2AError): JsonObject;
}

/**
 * The server's codec for one version and binding. Inside the server there is only 1.0: `decode`
 * translates parameters to it, so that one set of checks validates them, and `encode` and
 * `encodeEvent` translate results from it.
 */
export interface Dialect extends VersionRules {
  decode(operation: Operation, params: JsonObject): JsonObject;
  encode(result: Result): unknown;
  /** `last`: the stream closes after this event. */
  encodeEvent(event: A2AStreamEvent, last: boolean): unknown;
}

/** How a dialect encodes what results consist of. */
interface ResultForms {
  readonly task: (task: A2ATask) => unknown;
  readonly event: (event: A2AStreamEvent, last: boolean) => unknown;
  readonly push: (config: PushConfig) => unknown;
  readonly pushList: (configs: readonly unknown[]) => unknown;
  readonly nothing: unknown;
}

/** The `encode` of a dialect. */
export const resultEncoder =
  ({ task, event, push, pushList, nothing }: ResultForms): Dialect['encode'] =>
  (result) => {
    switch (result.kind) {
      case 'sent':
        return event(result.sent, false);
      case 'task':
        return task(result.task);
      case 'page':
        return { ...result.page, tasks: result.page.tasks.map(task) };
      case 'pushConfig':
        return push(result.config);
      case 'pushConfigs':
        return pushList(result.configs.map(push));
      case 'card':
        return result.card;
      case 'nothing':
        return nothing;
    }
  };

/** A2A 1.0, the same in JSON-RPC and REST. */
export const DIALECT_10: Dialect = {
  version: '1.0',
  extensionHeader: 'a2a-extensions',
  mediaType: 'application/a2a+json',
  missingExtension: 'EXTENSION_SUPPORT_REQUIRED',
  missingCard: 'UNSUPPORTED_OPERATION',
  extendedCard: '1.0',
  subscribesEnded: false,
  streamsErrors: false,
  pushesTasks: false,
  defaultPushId: undefined,
  errorData: ({ info }) => [info],
  restError({ reason, message, info }) {
    const { http, status } = REASONS[reason];
    return { error: { code: http, status, message, details: [info] } };
  },
  decode: (_operation, params) => camelCase(params),
  encode: resultEncoder({
    task: (task) => task,
    event: (event) => event,
    push: (config) => config,
    pushList: (configs) => ({ configs, nextPageToken: '' }),
    nothing: {},
  }),
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
