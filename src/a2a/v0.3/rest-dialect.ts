import { isObject, type JsonObject } from '../../json.ts';
import { decodePush03, encodePush03 } from './json-rpc-dialect.ts';
import { camelCase, type Dialect, type Operation } from '../protocol/dialect.ts';
import type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AStatus,
  A2ATask,
  PushConfig,
  A2AStreamEvent,
} from '../protocol/model.ts';

/**
 * A2A 0.3 over REST: the JSON form of its protobuf, which differs from its JSON-RPC form. It has
 * the enums and envelopes of 1.0, but `final`, `content` instead of a message's `parts`, nested
 * files and data, and resource names (`tasks/…/pushNotificationConfigs/…`) instead of ids.
 */
export const DIALECT_03_REST: Dialect = {
  version: '0.3',
  decode: decodeParams,
  encode: (result) => {
    switch (result.kind) {
      case 'sent':
        return encodeEvent(result.sent, false);
      case 'task':
        return encodeTask(result.task);
      case 'page':
        return { ...result.page, tasks: result.page.tasks.map(encodeTask) };
      case 'pushConfig':
        return encodePush(result.config);
      case 'pushConfigs':
        return { configs: result.configs.map(encodePush) };
      case 'card':
        return result.card;
      case 'nothing':
        return {};
    }
  },
  encodeEvent,
};

function encodeEvent(event: A2AStreamEvent, last: boolean): JsonObject {
  if ('task' in event) return { task: encodeTask(event.task) };
  if ('message' in event) return { message: encodeRestMessage03(event.message) };
  if ('statusUpdate' in event) {
    const { status, ...rest } = event.statusUpdate;
    return {
      statusUpdate: { ...rest, status: encodeStatus(status), ...(last && { final: true }) },
    };
  }
  const { artifact, ...rest } = event.artifactUpdate;
  return { artifactUpdate: { ...rest, artifact: encodeArtifact(artifact) } };
}

const encodeTask = ({ status, artifacts, history, ...rest }: A2ATask): JsonObject => ({
  ...rest,
  status: encodeStatus(status),
  ...(artifacts && { artifacts: artifacts.map(encodeArtifact) }),
  ...(history && { history: history.map(encodeRestMessage03) }),
});

export const encodeRestMessage03 = ({ parts, ...rest }: A2AMessage): JsonObject => ({
  ...rest,
  content: parts.map(encodePart),
});

// The protobuf of 0.3 spells this state CANCELLED; its JSON-RPC form and 1.0 spell it CANCELED.
const encodeStatus = ({ state, message, ...rest }: A2AStatus): JsonObject => ({
  state: state === 'TASK_STATE_CANCELED' ? 'TASK_STATE_CANCELLED' : state,
  ...rest,
  ...(message && { message: encodeRestMessage03(message) }),
});

const encodeArtifact = ({ parts, ...rest }: A2AArtifact): JsonObject => ({
  ...rest,
  parts: parts.map(encodePart),
});

function encodePart({ text, data, url, raw, mediaType, filename, metadata }: A2APart): JsonObject {
  const more = metadata && { metadata };
  if (text !== undefined) return { text, ...more };
  if (data !== undefined)
    return { data: { data: isObject(data) ? data : { value: data } }, ...more };
  const file = {
    ...(url === undefined ? { fileWithBytes: raw ?? '' } : { fileWithUri: url }),
    ...(mediaType !== undefined && { mimeType: mediaType }),
    ...(filename !== undefined && { name: filename }),
  };
  return { file, ...more };
}

/** A config without an id has an empty last segment in its resource name. */
export function encodePush(config: Omit<PushConfig, 'id'> & { readonly id?: string }): JsonObject {
  const { pushNotificationConfig } = encodePush03(config);
  const name = `tasks/${config.taskId}/pushNotificationConfigs/${config.id ?? ''}`;
  return { name, pushNotificationConfig };
}

function decodeParams(operation: Operation, spelled: JsonObject): JsonObject {
  const params = camelCase(spelled);
  if (operation === 'createPush') return decodeCreate(params);
  if (operation === 'list' && params['status'] === 'TASK_STATE_CANCELLED')
    return { ...params, status: 'TASK_STATE_CANCELED' };
  if (operation !== 'send' && operation !== 'stream') return params;
  const { message, request = message, configuration, ...rest } = params;
  return {
    ...rest,
    message: isObject(request) ? decodeMessage(request) : request,
    ...(isObject(configuration) && { configuration: decodeConfiguration(configuration) }),
  };
}

function decodeCreate({ taskId, configId, config, ...bare }: JsonObject): JsonObject {
  // Callers send the complete request, only its `config`, or only the inner push config.
  const outer = isObject(config) ? config : bare;
  const inner = outer['pushNotificationConfig'];
  const push = decodePush03(isObject(inner) ? inner : outer);
  const id = push['id'] || configId || undefined;
  return { ...push, taskId, ...(id !== undefined && { id }) };
}

function decodeConfiguration(configuration: JsonObject): JsonObject {
  const { blocking, pushNotification: push, historyLength, ...rest } = configuration;
  return {
    ...rest,
    ...(blocking === false && { returnImmediately: true }),
    // proto3 sends 0 for an integer that was not set, so 0 cannot mean "no history" here.
    ...(historyLength !== 0 && historyLength !== undefined && { historyLength }),
    ...(isObject(push) && { taskPushNotificationConfig: decodePush03(push) }),
  };
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
