import { isObject, type JsonObject } from '../../json.ts';
import { CLIENT_03_REST, DIALECT_03_REST } from '../v0.3/rest-dialect.ts';
import type { ClientDialect } from '../protocol/client-dialect.ts';
import { DIALECT_10, type Dialect, type Operation } from '../protocol/dialect.ts';

/** A2A 1.0 over gRPC: the JSON form of its protobuf is the model itself. */
export const DIALECT_10_GRPC: Dialect = { ...DIALECT_10, decode: (_operation, params) => params };

/** A2A 0.3 over gRPC: the REST dialect, with resource names in place of the ids of a path. */
export const DIALECT_03_GRPC: Dialect = {
  ...DIALECT_03_REST,
  decode: (operation, params) => DIALECT_03_REST.decode(operation, withIds(operation, params)),
  encode: (result) =>
    result.kind === 'card'
      ? // The protobuf has the form of `securityRequirements` of 1.0 under the old name `security`.
        { ...result.card, security: result.card['securityRequirements'] ?? [] }
      : DIALECT_03_REST.encode(result),
};

const NAME = /^tasks\/([^/]+)(?:\/pushNotificationConfigs(?:\/(.*))?)?$/;

function withIds(operation: Operation, params: JsonObject): JsonObject {
  const { name, parent, historyLength, ...rest } = params;
  const given = name ?? parent;
  const [, task, config] = (typeof given === 'string' && NAME.exec(given)) || [];
  switch (operation) {
    case 'get':
      // proto3 sends 0 for an integer that was not set, so 0 cannot mean "no history" here.
      return { id: task, ...(historyLength !== 0 && { historyLength }) };
    case 'cancel':
    case 'subscribe':
      return { id: task };
    case 'createPush':
      return { ...rest, taskId: task };
    case 'getPush':
    case 'deletePush':
      return { taskId: task, id: config };
    case 'listPush':
      return { taskId: task };
    default:
      return params;
  }
}

/** The client's side of `DIALECT_03_GRPC`. */
export const CLIENT_03_GRPC: ClientDialect = {
  ...CLIENT_03_REST,
  encode(operation, params) {
    const { id, taskId = id, historyLength } = params;
    const parent = `tasks/${String(taskId)}`;
    const name = `${parent}/pushNotificationConfigs/${String(id)}`;
    switch (operation) {
      case 'get':
        return { name: parent, ...(historyLength !== undefined && { historyLength }) };
      case 'cancel':
      case 'subscribe':
        return { name: parent };
      case 'createPush': {
        const config = CLIENT_03_REST.encode(operation, params);
        return { parent, config, ...(id !== undefined && { configId: id }) };
      }
      case 'getPush':
      case 'deletePush':
        return { name };
      case 'listPush':
        return { parent };
      default:
        return CLIENT_03_REST.encode(operation, params);
    }
  },
};

/**
 * The metadata member with the id of an event, for callers with the resume extension: gRPC has no
 * `id:`.
 */
const EVENT_ID = 'urn:duolane:a2a:resume:v1/id';

/** The event with its id in its metadata. */
export function withEventId(event: JsonObject, id: string): JsonObject {
  const [[kind, inner] = []] = Object.entries(event);
  if (kind === undefined || !isObject(inner)) return event;
  const metadata = isObject(inner['metadata']) ? inner['metadata'] : {};
  return { [kind]: { ...inner, metadata: { ...metadata, [EVENT_ID]: id } } };
}

/** Splits an event from its id, which is empty if the server sent none. */
export function takeEventId(event: JsonObject): readonly [event: JsonObject, id: string] {
  const [[kind, inner] = []] = Object.entries(event);
  if (kind === undefined || !isObject(inner) || !isObject(inner['metadata'])) return [event, ''];
  const { metadata, ...rest } = inner;
  const { [EVENT_ID]: id, ...others } = metadata as JsonObject;
  if (typeof id !== 'string') return [event, ''];
  const kept = Object.keys(others).length > 0 && { metadata: others };
  return [{ [kind]: { ...rest, ...kept } }, id];
}
