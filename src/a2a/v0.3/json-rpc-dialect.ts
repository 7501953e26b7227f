import { isObject, omitUndefined, type JsonObject } from '../../json.ts';
import {
  decodeEvent,
  decodePush03,
  requireObject,
  unreadable,
  type ClientDialect,
} from '../protocol/client-dialect.ts';
import { DIALECT_10, type Dialect, type Version } from '../protocol/dialect.ts';
import { decodeSend03, dialects03, type Form03 } from './codec.ts';

/** The event names of 1.0, by the `kind` of 0.3. */
const EVENT_OF_KIND: ReadonlyMap<unknown, string> = new Map([
  ['task', 'task'],
  ['message', 'message'],
  ['status-update', 'statusUpdate'],
  ['artifact-update', 'artifactUpdate'],
]);

/**
 * A2A 0.3 over JSON-RPC: objects have a member `kind`, states are lower case, push configs are
 * nested.
 */
const RPC_FORM: Form03 = {
  text: (text) => ({ kind: 'text', text }),
  data: (data) => ({ kind: 'data', data }),
  file: ({ url, raw = '', filename, mediaType }) => ({
    kind: 'file',
    file: omitUndefined<JsonObject>({
      ...(url === undefined ? { bytes: raw } : { uri: url }),
      name: filename,
      mimeType: mediaType,
    }),
  }),
  message: ({ role, ...rest }, parts) => ({
    kind: 'message',
    ...rest,
    role: role === 'ROLE_USER' ? 'user' : 'agent',
    parts,
  }),
  status: ({ state, timestamp }, message) => ({
    state: state.slice('TASK_STATE_'.length).toLowerCase().replaceAll('_', '-'),
    ...(message && { message }),
    timestamp,
  }),
  task: (task) => ({ kind: 'task', ...task }),
  /**
   * `last` becomes `final`: a 0.3 stream must announce its end, also if the task only waits for a
   * person.
   */
  event(name, object, last) {
    if (name === 'statusUpdate') return { kind: 'status-update', ...object, final: last };
    if (name !== 'artifactUpdate') return object;
    const { append = false, lastChunk = false, ...rest } = object;
    return { kind: 'artifact-update', ...rest, append, lastChunk };
  },
  push: ({ taskId }, pushNotificationConfig) => ({ taskId, pushNotificationConfig }),
  pushList: (configs) => configs,
  nothing: null,
  pushMember: 'pushNotificationConfig',
  decode(operation, params) {
    switch (operation) {
      case 'send':
      case 'stream':
        return decodeSend03(params, decodeMessage);
      case 'createPush': {
        const { taskId, pushNotificationConfig: config } = params;
        return isObject(config) ? { ...decodePush03(config), taskId } : { taskId };
      }
      case 'getPush':
      case 'deletePush':
      case 'listPush': {
        const { id, pushNotificationConfigId, ...rest } = params;
        return { ...rest, taskId: id, id: pushNotificationConfigId };
      }
      default:
        return params;
    }
  },
  decodeEvent(value) {
    const { kind, ...rest } = requireObject(value, 'an event');
    const name = EVENT_OF_KIND.get(kind);
    if (name === undefined) throw unreadable('an event', value);
    return decodeEvent({ [name]: rest });
  },
};

const { server, client } = dialects03(RPC_FORM);
export const DIALECT_03: Dialect = server;
export const CLIENT_03: ClientDialect = client;

/** The dialects of the JSON-RPC binding. */
export const RPC_DIALECTS: Readonly<Record<Version, Dialect>> = {
  '1.0': DIALECT_10,
  '0.3': DIALECT_03,
};

function decodeMessage(message: JsonObject): JsonObject {
  const { kind: _, role, parts, ...rest } = message;
  return {
    ...rest,
    role: role === 'agent' ? 'ROLE_AGENT' : role === 'user' ? 'ROLE_USER' : role,
    parts: Array.isArray(parts) ? parts.map(decodePart) : parts,
  };
}

function decodePart(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { kind, file, ...rest } = part;
  if (kind !== 'file' && kind !== 'text' && kind !== 'data') return {};
  if (kind !== 'file' || !isObject(file)) return rest;
  const { uri: url, bytes: raw, name: filename, mimeType: mediaType } = file;
  const content = url === undefined ? { raw } : { url };
  return { ...content, ...omitUndefined({ filename, mediaType }), ...rest };
}
