import { isObject, type JsonObject } from '../../json.ts';
import type { Dialect, Operation } from '../protocol/dialect.ts';
import type {
  A2AArtifact,
  A2AMessage,
  A2APart,
  A2AState,
  A2AStatus,
  A2ATask,
  PushConfig,
  A2AStreamEvent,
} from '../protocol/model.ts';

/**
 * A2A 0.3 over JSON-RPC: objects have a member `kind`, states are lower case, push configs are
 * nested.
 */
export const DIALECT_03: Dialect = {
  version: '0.3',
  decode: decodeParams,
  encode: (result) => {
    switch (result.kind) {
      case 'sent':
        return encodeEvent03(result.sent, false);
      case 'task':
        return encodeTask03(result.task);
      case 'page':
        return { ...result.page, tasks: result.page.tasks.map(encodeTask03) };
      case 'pushConfig':
        return encodePush03(result.config);
      case 'pushConfigs':
        return result.configs.map(encodePush03);
      case 'card':
        return result.card;
      case 'nothing':
        return null;
    }
  },
  encodeEvent: encodeEvent03,
};

/**
 * `last` becomes `final`: a 0.3 stream must announce its end, also if the task only waits for a
 * person.
 */
export function encodeEvent03(event: A2AStreamEvent, last: boolean): JsonObject {
  if ('task' in event) return encodeTask03(event.task);
  if ('message' in event) return encodeMessage03(event.message);
  if ('statusUpdate' in event) {
    const { status, ...rest } = event.statusUpdate;
    return { kind: 'status-update', ...rest, status: encodeStatus03(status), final: last };
  }
  const { artifact, append = false, lastChunk = false, ...rest } = event.artifactUpdate;
  return {
    kind: 'artifact-update',
    ...rest,
    artifact: encodeArtifact03(artifact),
    append,
    lastChunk,
  };
}

export const encodeTask03 = ({ status, artifacts, history, ...rest }: A2ATask): JsonObject => ({
  kind: 'task',
  ...rest,
  status: encodeStatus03(status),
  ...(artifacts && { artifacts: artifacts.map(encodeArtifact03) }),
  ...(history && { history: history.map(encodeMessage03) }),
});

export const encodeMessage03 = ({ role, parts, ...rest }: A2AMessage): JsonObject => ({
  kind: 'message',
  ...rest,
  role: role === 'ROLE_USER' ? 'user' : 'agent',
  parts: parts.map(encodePart03),
});

const encodeStatus03 = ({ state, message, timestamp }: A2AStatus): JsonObject => ({
  state: encodeState03(state),
  ...(message && { message: encodeMessage03(message) }),
  timestamp,
});

const encodeState03 = (state: A2AState): string =>
  state.slice('TASK_STATE_'.length).toLowerCase().replaceAll('_', '-');

const encodeArtifact03 = ({ parts, ...rest }: A2AArtifact): JsonObject => ({
  ...rest,
  parts: parts.map(encodePart03),
});

function encodePart03({
  text,
  data,
  url,
  raw,
  mediaType,
  filename,
  metadata,
}: A2APart): JsonObject {
  const more = metadata && { metadata };
  if (text !== undefined) return { kind: 'text', text, ...more };
  // 0.3 allows only objects as data, so any other value is wrapped in one.
  if (data !== undefined)
    return { kind: 'data', data: isObject(data) ? data : { value: data }, ...more };
  const file = {
    ...(url === undefined ? { bytes: raw ?? '' } : { uri: url }),
    ...(filename !== undefined && { name: filename }),
    ...(mediaType !== undefined && { mimeType: mediaType }),
  };
  return { kind: 'file', file, ...more };
}

export const encodePush03 = ({
  taskId,
  id,
  url,
  token,
  authentication,
}: Omit<PushConfig, 'id'> & { readonly id?: string }): JsonObject => ({
  taskId,
  pushNotificationConfig: {
    ...(id !== undefined && { id }),
    url,
    ...(token !== undefined && { token }),
    ...(authentication && {
      authentication: {
        schemes: [authentication.scheme],
        ...(authentication.credentials !== undefined && {
          credentials: authentication.credentials,
        }),
      },
    }),
  },
});

function decodeParams(operation: Operation, params: JsonObject): JsonObject {
  switch (operation) {
    case 'send':
    case 'stream': {
      const { message, configuration, ...rest } = params;
      return {
        ...rest,
        message: isObject(message) ? decodeMessage03(message) : message,
        ...(isObject(configuration) && { configuration: decodeConfiguration(configuration) }),
      };
    }
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
    case 'get':
    case 'list':
    case 'cancel':
    case 'subscribe':
    case 'extendedCard':
      return params;
  }
}

function decodeConfiguration(configuration: JsonObject): JsonObject {
  const { blocking, pushNotificationConfig: push, ...rest } = configuration;
  return {
    ...rest,
    ...(blocking === false && { returnImmediately: true }),
    ...(isObject(push) && { taskPushNotificationConfig: decodePush03(push) }),
  };
}

export function decodePush03(config: JsonObject): JsonObject {
  const { authentication, ...rest } = config;
  if (!isObject(authentication)) return rest;
  const { schemes, credentials } = authentication;
  const [scheme] = Array.isArray(schemes) ? (schemes as unknown[]) : [];
  if (scheme === undefined && !credentials) return rest;
  return { ...rest, authentication: { scheme, ...(credentials !== undefined && { credentials }) } };
}

export function decodeMessage03(message: JsonObject): JsonObject {
  const { kind: _, role, parts, ...rest } = message;
  return {
    ...rest,
    role: role === 'agent' ? 'ROLE_AGENT' : role === 'user' ? 'ROLE_USER' : role,
    parts: Array.isArray(parts) ? parts.map(decodePart03) : parts,
  };
}

function decodePart03(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { kind, file, ...rest } = part;
  if (kind !== 'file' && kind !== 'text' && kind !== 'data') return {};
  if (kind !== 'file' || !isObject(file)) return rest;
  return {
    ...(file['uri'] === undefined ? { raw: file['bytes'] } : { url: file['uri'] }),
    ...(file['name'] !== undefined && { filename: file['name'] }),
    ...(file['mimeType'] !== undefined && { mediaType: file['mimeType'] }),
    ...rest,
  };
}
