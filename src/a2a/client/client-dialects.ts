import { DuolaneError } from '../../errors.ts';
import { asArray, asObject, asString, isObject, type JsonObject } from '../../json.ts';
import { decodePush03, encodeMessage03, encodePush03 } from '../v0.3/json-rpc-dialect.ts';
import {
  encodeRestMessage03 as encodeMessage03Rest,
  encodePush as encodePush03Rest,
} from '../v0.3/rest-dialect.ts';
import type { Operation, Version } from '../protocol/dialect.ts';
import type { A2AMessage, A2ATask, PushConfig, A2AStreamEvent } from '../protocol/model.ts';

/** One event of a server, in the form of 1.0. */
export interface Decoded {
  readonly event: A2AStreamEvent;
  /** The end mark of 0.3; 1.0 has none. */
  readonly final?: boolean;
}

/** The client's side of a `Dialect`: encodes parameters, decodes responses. Throws `malformed`. */
export interface ClientDialect {
  readonly version: Version;
  encode(operation: Operation, params: JsonObject): JsonObject;
  decodeEvent(value: unknown): Decoded;
  decodeTask(value: unknown): A2ATask;
  decodePush(value: unknown): PushConfig;
}

const decodeEvent10 = (value: unknown): Decoded => {
  const object = need(value, 'an event');
  const { statusUpdate } = object;
  if (isObject(statusUpdate)) {
    const { final, ...update } = statusUpdate;
    const status = decodeStatus(update['status']);
    const event = { statusUpdate: { ...update, status } } as unknown as A2AStreamEvent;
    return { event, ...(typeof final === 'boolean' && { final }) };
  }
  if (isObject(object['task'])) return { event: { task: decodeTask(object['task']) } };
  if (isObject(object['message'])) return { event: { message: decodeMessage(object['message']) } };
  if (isObject(object['artifactUpdate'])) {
    const update = object['artifactUpdate'];
    const artifact = decodeArtifact(update['artifact']);
    return { event: { artifactUpdate: { ...update, artifact } } as unknown as A2AStreamEvent };
  }
  throw unreadable('an event', value);
};

const decodeEvent03 = (value: unknown): Decoded => {
  const { kind, final, ...rest } = need(value, 'an event');
  switch (kind) {
    case 'task':
      return { event: { task: decodeTask(rest) } };
    case 'message':
      return { event: { message: decodeMessage(rest) } };
    case 'status-update': {
      const statusUpdate = { ...rest, status: decodeStatus(rest['status']) };
      return { event: { statusUpdate } as unknown as A2AStreamEvent, final: final === true };
    }
    case 'artifact-update': {
      const artifactUpdate = { ...rest, artifact: decodeArtifact(rest['artifact']) };
      return { event: { artifactUpdate } as unknown as A2AStreamEvent };
    }
    default:
      throw unreadable('an event', value);
  }
};

export const CLIENT_10: ClientDialect = {
  version: '1.0',
  encode: (_operation, params) => params,
  decodeEvent: decodeEvent10,
  decodeTask,
  decodePush,
};

export const CLIENT_03: ClientDialect = {
  version: '0.3',
  encode: (operation, params) => encode03(operation, params, SPELLING_RPC),
  decodeEvent: decodeEvent03,
  decodeTask,
  decodePush,
};

export const CLIENT_03_REST: ClientDialect = {
  version: '0.3',
  encode: (operation, params) => encode03(operation, params, SPELLING_REST),
  decodeEvent: decodeEvent10,
  decodeTask,
  decodePush,
};

/** How the JSON-RPC and the REST form of 0.3 differ in requests. */
interface Spelling {
  readonly message: (message: A2AMessage) => JsonObject;
  readonly push: (config: PushConfig) => JsonObject;
  /** The member of a message's configuration that has its push config. */
  readonly pushMember: string;
}

const SPELLING_RPC: Spelling = {
  message: encodeMessage03,
  push: encodePush03,
  pushMember: 'pushNotificationConfig',
};
const SPELLING_REST: Spelling = {
  message: encodeMessage03Rest,
  push: encodePush03Rest,
  pushMember: 'pushNotification',
};

function encode03(
  operation: Operation,
  params: JsonObject,
  { message, push, pushMember }: Spelling,
): JsonObject {
  switch (operation) {
    case 'send':
    case 'stream':
      return {
        ...params,
        message: message(params['message'] as A2AMessage),
        configuration: encodeConfiguration(params['configuration'], pushMember),
      };
    case 'createPush':
      return push(params as unknown as PushConfig);
    case 'getPush':
    case 'listPush':
    case 'deletePush': {
      const { taskId, id } = params;
      return { id: taskId, ...(id !== undefined && { pushNotificationConfigId: id }) };
    }
    case 'get':
    case 'list':
    case 'cancel':
    case 'subscribe':
    case 'extendedCard':
      return params;
  }
}

function encodeConfiguration(given: unknown, name: string): JsonObject {
  const { returnImmediately, taskPushNotificationConfig: push, ...others } = asObject(given);
  return {
    ...others,
    blocking: returnImmediately !== true,
    ...(isObject(push) && {
      [name]: encodePush03(push as unknown as PushConfig)['pushNotificationConfig'],
    }),
  };
}

/** Decodes a task of any dialect: a name that differs between them never means two things. */
function decodeTask(value: unknown): A2ATask {
  const { kind: _, status, artifacts, history, ...rest } = need(value, 'a task');
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
  const { name, pushNotificationConfig: inner, ...outer } = need(value, 'a push config');
  const [, task, config] =
    /^tasks\/([^/]+)\/pushNotificationConfigs\/(.+)$/.exec(asString(name)) ?? [];
  const {
    taskId = task,
    id = config,
    ...rest
  } = {
    ...outer,
    ...(isObject(inner) && decodePush03(inner)),
  } as JsonObject;
  if (typeof rest['url'] !== 'string') throw unreadable('a push config', value);
  return { ...rest, id, taskId } as unknown as PushConfig;
}

function decodeStatus(value: unknown): JsonObject {
  const { state, message, ...rest } = need(value, 'a status');
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
  const { kind: _, role, content, parts = content, ...rest } = need(value, 'a message');
  return {
    ...rest,
    role: role === 'user' || role === 'ROLE_USER' ? 'ROLE_USER' : 'ROLE_AGENT',
    parts: decodeParts(parts),
  } as unknown as A2AMessage;
}

function decodeArtifact(value: unknown): JsonObject {
  const { parts, ...rest } = need(value, 'an artifact');
  return { ...rest, parts: decodeParts(parts) };
}

const decodeParts = (parts: unknown): readonly unknown[] => asArray(parts).map(decodePart);

function decodePart(value: unknown): JsonObject {
  const { kind, file, data, ...rest } = need(value, 'a part');
  if (data !== undefined) {
    // The protobuf of 0.3 nests data in a second `data`. Its JSON-RPC form, which does not, has
    // `kind`; 1.0 has neither.
    const inner = kind === undefined && isObject(data) && Object.keys(data).join() === 'data';
    return { ...rest, data: inner ? data['data'] : data };
  }
  if (!isObject(file)) return rest;
  const { uri, fileWithUri = uri, bytes, fileWithBytes = bytes, name, mimeType } = file;
  return {
    ...rest,
    ...(fileWithUri === undefined ? { raw: fileWithBytes } : { url: fileWithUri }),
    ...(name !== undefined && { filename: name }),
    ...(mimeType !== undefined && { mediaType: mimeType }),
  };
}

function need(value: unknown, what: string): JsonObject {
  if (!isObject(value)) throw unreadable(what, value);
  return value;
}

const unreadable = (what: string, value: unknown): DuolaneError =>
  new DuolaneError(
    'malformed',
    `the server sent ${JSON.stringify(value)?.slice(0, 200)}: expected ${what}`,
  );
