import { isObject, omitUndefined, type JsonObject } from '../../json.ts';
import { decodeEvent, decodePush03, type ClientDialect } from '../protocol/client-dialect.ts';
import { camelCase, type Dialect } from '../protocol/dialect.ts';
import { decodeSend03, dialects03, type Form03 } from './codec.ts';

/**
 * A2A 0.3 over REST: the JSON form of its protobuf, which differs from its JSON-RPC form. It has
 * the enums and envelopes of 1.0, but `final`, `content` instead of a message's `parts`, nested
 * files and data, and resource names (`tasks/…/pushNotificationConfigs/…`) instead of ids.
 */
const REST_FORM: Form03 = {
  text: (text) => ({ text }),
  data: (data) => ({ data: { data } }),
  file: ({ url, raw = '', filename, mediaType }) => ({
    file: omitUndefined<JsonObject>({
      ...(url === undefined ? { fileWithBytes: raw } : { fileWithUri: url }),
      mimeType: mediaType,
      name: filename,
    }),
  }),
  message: (message, content) => ({ ...message, content }),
  // The protobuf of 0.3 spells this state CANCELLED; its JSON-RPC form and 1.0 spell it CANCELED.
  status: ({ state, timestamp }, message) => ({
    state: state === 'TASK_STATE_CANCELED' ? 'TASK_STATE_CANCELLED' : state,
    timestamp,
    ...(message && { message }),
  }),
  task: (task) => task,
  event: (name, object, last) => ({
    [name]: name === 'statusUpdate' && last ? { ...object, final: true } : object,
  }),
  /** A config without an id has an empty last segment in its resource name. */
  push: ({ taskId, id = '' }, pushNotificationConfig) => ({
    name: `tasks/${taskId}/pushNotificationConfigs/${id}`,
    pushNotificationConfig,
  }),
  pushList: (configs) => ({ configs }),
  nothing: {},
  pushMember: 'pushNotification',
  decode(operation, spelled) {
    const params = camelCase(spelled);
    if (operation === 'createPush') return decodeCreate(params);
    if (operation === 'list' && params['status'] === 'TASK_STATE_CANCELLED')
      return { ...params, status: 'TASK_STATE_CANCELED' };
    if (operation !== 'send' && operation !== 'stream') return params;
    const { message: given, request: message = given, configuration, ...rest } = params;
    const sent = { ...rest, message, configuration: withoutDefaults(configuration) };
    return decodeSend03(sent, decodeMessage);
  },
  decodeEvent,
};

const { server, client } = dialects03(REST_FORM);
export const DIALECT_03_REST: Dialect = server;
export const CLIENT_03_REST: ClientDialect = client;

function decodeCreate({ taskId, configId, config, ...bare }: JsonObject): JsonObject {
  // Callers send the complete request, only its `config`, or only the inner push config.
  const outer = isObject(config) ? config : bare;
  const inner = outer['pushNotificationConfig'];
  const push = decodePush03(isObject(inner) ? inner : outer);
  const id = push['id'] || configId || undefined;
  return { ...push, taskId, ...(id !== undefined && { id }) };
}

/** The configuration of a message, under the names of the JSON-RPC form. */
function withoutDefaults(configuration: unknown): unknown {
  if (!isObject(configuration)) return configuration;
  const { pushNotification: pushNotificationConfig, historyLength, ...rest } = configuration;
  // proto3 sends 0 for an integer that was not set, so 0 cannot mean "no history" here.
  const length = historyLength !== 0 && { historyLength };
  return { ...rest, ...length, pushNotificationConfig };
}

function decodeMessage({ content, parts = content, ...rest }: JsonObject): JsonObject {
  return { ...rest, parts: Array.isArray(parts) ? parts.map(decodePart) : parts };
}

function decodePart(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { kind: _, file, data, ...rest } = part;
  if (isObject(data)) return { ...rest, data: isObject(data['data']) ? data['data'] : data };
  if (!isObject(file)) return rest;
  const { fileWithUri: url, fileWithBytes: raw, mimeType, name } = file;
  return {
    ...(url === undefined ? { raw } : { url }),
    ...(typeof name === 'string' && name !== '' && { filename: name }),
    ...(typeof mimeType === 'string' && mimeType !== '' && { mediaType: mimeType }),
    ...rest,
  };
}
