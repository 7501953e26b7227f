import { DuolaneError } from '../../errors.ts';
import { asArray, asString, isObject, omitUndefined, type JsonObject } from '../../json.ts';
import { DIALECT_10, type Operation, type VersionRules } from './dialect.ts';
import type { A2AMessage, A2ATask, PushConfig, A2AStreamEvent } from './model.ts';

/** One event of a server, in the form of 1.0. */
export interface Decoded {
  readonly event: A2AStreamEvent;
  /** The end mark of 0.3; 1.0 has none. */
  readonly final?: boolean;
}

/** The client's side of a `Dialect`: encodes parameters, decodes responses. Throws `malformed`. */
export interface ClientDialect extends Pick<VersionRules, 'version' | 'extensionHeader'> {
  /** Whether a request can name a tenant. */
  readonly hasTenants: boolean;
  /** Parts of the paths of the REST binding. */
  readonly restPaths: { readonly prefix: string; readonly extendedCard: string };
  encode(operation: Operation, params: JsonObject): JsonObject;
  decodeEvent(value: unknown): Decoded;
  decodeTask(value: unknown): A2ATask;
  decodePush(value: unknown): PushConfig;
}

export const CLIENT_10: ClientDialect = {
  version: DIALECT_10.version,
  extensionHeader: DIALECT_10.extensionHeader,
  hasTenants: true,
  restPaths: { prefix: '', extendedCard: 'extendedAgentCard' },
  encode: (_operation, params) => params,
  decodeEvent,
  decodeTask,
  decodePush,
};

/** Decodes an event with the envelope of 1.0, which the protobuf of 0.3 has too. */
export function decodeEvent(value: unknown): Decoded {
  const { statusUpdate, task, message, artifactUpdate } = requireObject(value, 'an event');
  if (isObject(statusUpdate)) {
    const { final, ...update } = statusUpdate;
    const status = decodeStatus(update['status']);
    const event = { statusUpdate: { ...update, status } } as unknown as A2AStreamEvent;
    return { event, ...(typeof final === 'boolean' && { final }) };
  }
  if (isObject(task)) return { event: { task: decodeTask(task) } };
  if (isObject(message)) return { event: { message: decodeMessage(message) } };
  if (isObject(artifactUpdate)) {
    const artifact = decodeArtifact(artifactUpdate['artifact']);
    const event = { artifactUpdate: { ...artifactUpdate, artifact } };
    return { event: event as unknown as A2AStreamEvent };
  }
  throw unreadable('an event', value);
}

/** Decodes a task of any dialect: a name that differs between them never means two things. */
function decodeTask(value: unknown): A2ATask {
  const { kind: _, status, artifacts, history, ...rest } = requireObject(value, 'a task');
  if (typeof rest['id'] !== 'string') throw unreadable('a task', value);
  return {
    ...rest,
    status: decodeStatus(status),
    ...(Array.isArray(artifacts) && { artifacts: artifacts.map(decodeArtifact) }),
    ...(Array.isArray(history) && { history: history.map(decodeMessage) }),
  } as unknown as A2ATask;
}

/**
 * Decodes a push config: flat in 1.0, nested in 0.3, whose protobuf has both ids in a resource
 * name.
 */
function decodePush(value: unknown): PushConfig {
  const { name, pushNotificationConfig: inner, ...outer } = requireObject(value, 'a push config');
  const [, task, config] =
    /^tasks\/([^/]+)\/pushNotificationConfigs\/(.+)$/.exec(asString(name)) ?? [];
  const flat: JsonObject = { ...outer, ...(isObject(inner) && decodePush03(inner)) };
  const { taskId = task, id = config, ...rest } = flat;
  if (typeof rest['url'] !== 'string') throw unreadable('a push config', value);
  return { ...rest, id, taskId } as unknown as PushConfig;
}

/** Decodes the nested push config of 0.3. */
export function decodePush03(config: JsonObject): JsonObject {
  const { authentication, ...rest } = config;
  // What is not an object stays, so that a server refuses it.
  if (!isObject(authentication)) return authentication == null ? rest : config;
  const { schemes, credentials } = authentication;
  const [scheme] = asArray(schemes);
  if (scheme === undefined && !credentials) return rest;
  return { ...rest, authentication: { scheme, ...(credentials !== undefined && { credentials }) } };
}

function decodeStatus(value: unknown): JsonObject {
  const { state, message, ...rest } = requireObject(value, 'a status');
  if (typeof state !== 'string') throw unreadable('a status', value);
  return {
    ...rest,
    state: decodeState(state),
    ...(isObject(message) && { message: decodeMessage(message) }),
  };
}

function decodeState(state: string): string {
  const upper = state.toUpperCase().replaceAll('-', '_').replace('CANCELLED', 'CANCELED');
  return upper.startsWith('TASK_STATE_') ? upper : `TASK_STATE_${upper}`;
}

function decodeMessage(value: unknown): A2AMessage {
  const { kind: _, role, content, parts = content, ...rest } = requireObject(value, 'a message');
  return {
    ...rest,
    role: role === 'user' || role === 'ROLE_USER' ? 'ROLE_USER' : 'ROLE_AGENT',
    parts: decodeParts(parts),
  } as unknown as A2AMessage;
}

function decodeArtifact(value: unknown): JsonObject {
  const { parts, ...rest } = requireObject(value, 'an artifact');
  return { ...rest, parts: decodeParts(parts) };
}

const decodeParts = (parts: unknown): readonly unknown[] => asArray(parts).map(decodePart);

function decodePart(value: unknown): JsonObject {
  const { kind, file, data, ...rest } = requireObject(value, 'a part');
  if (data !== undefined) {
    // The protobuf of 0.3 nests data in a second `data`. Its JSON-RPC form, which does not, has
    // `kind`; 1.0 has neither.
    const inner = kind === undefined && isObject(data) && Object.keys(data).join() === 'data';
    return { ...rest, data: inner ? data['data'] : data };
  }
  if (!isObject(file)) return rest;
  const { uri, fileWithUri: url = uri, bytes, fileWithBytes: raw = bytes } = file;
  const named = { filename: file['name'], mediaType: file['mimeType'] };
  return { ...rest, ...(url === undefined ? { raw } : { url }), ...omitUndefined(named) };
}

export function requireObject(value: unknown, what: string): JsonObject {
  if (!isObject(value)) throw unreadable(what, value);
  return value;
}

export const unreadable = (what: string, value: unknown): DuolaneError =>
  new DuolaneError(
    'malformed',
    `the server sent ${JSON.stringify(value)?.slice(0, 200)}: expected ${what}`,
  );
