import type { Answer } from '../../ask.ts';
import type { Part, TaskState } from '../../event/types.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { PushConfig } from '../protocol/model.ts';
import { STATES } from '../protocol/task-encoder.ts';

/** What a caller sent, checked once, in our words. */
export interface SendRequest {
  readonly messageId: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
  readonly metadata?: JsonObject;
  readonly historyLength?: number;
  /** Whether the answer waits for the end of the run. */
  readonly blocking: boolean;
  /** Wants to be told elsewhere too; the task is not known yet. */
  readonly push?: Omit<PushConfig, 'taskId'>;
}

/** The parameters of send and stream, in the spelling of 1.0. */
export function readSend(
  params: JsonObject,
  { maxParts }: { readonly maxParts: number },
): SendRequest {
  const message = need(params['message'], 'message');
  const messageId = requireString(message, 'messageId', 'message.');
  if (messageId === undefined) throw bad('message.messageId is required');
  if (message['role'] !== 'ROLE_USER') throw bad('message.role must be that of the user');
  const given = message['parts'];
  if (!Array.isArray(given) || given.length === 0)
    throw bad('message.parts needs at least one part');
  if (given.length > maxParts) throw bad(`message.parts has more than ${maxParts} parts`);
  const configuration = isObject(params['configuration']) ? params['configuration'] : {};
  const taskId = requireString(message, 'taskId', 'message.');
  const contextId = requireString(message, 'contextId', 'message.');
  const historyLength = readLength(configuration['historyLength']);
  const push = configuration['taskPushNotificationConfig'];
  const { answers, parts } = takeAnswers(given.map(readPart));
  return {
    messageId,
    ...(taskId !== undefined && { taskId }),
    ...(contextId !== undefined && { contextId }),
    parts,
    answers,
    ...(isObject(message['metadata']) && { metadata: message['metadata'] }),
    ...(historyLength !== undefined && { historyLength }),
    blocking: configuration['returnImmediately'] !== true,
    ...(isObject(push) && { push: readPush(push) }),
  };
}

/** The parameter that names the task; `what` is its member. */
export function readTaskId(params: JsonObject, what = 'id'): string {
  const id = requireString(params, what);
  if (id === undefined) throw bad(`${what} is required: which task?`);
  return id;
}

export function readLength(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw bad(`historyLength must be a whole number from 0, got ${JSON.stringify(value)}`);
  }
  return value;
}

export interface ListRequest {
  readonly context?: string;
  readonly state?: TaskState;
  readonly changedAfter?: number;
  readonly pageSize: number;
  readonly pageToken?: string;
  readonly historyLength: number;
  readonly artifacts: boolean;
}

export function readList(params: JsonObject): ListRequest {
  const pageSize = params['pageSize'] ?? 50;
  const status = requireString(params, 'status');
  if (typeof pageSize !== 'number' || !Number.isInteger(pageSize) || pageSize < 1 || pageSize > 100)
    throw bad('pageSize must be a whole number from 1 to 100');
  const states = Object.entries(STATES) as [TaskState, string][];
  const state = states.find(([, wire]) => wire === status)?.[0];
  if (status !== undefined && status !== 'TASK_STATE_UNSPECIFIED' && !state)
    throw bad(`there is no state ${JSON.stringify(status)}`);
  const time = requireString(params, 'statusTimestampAfter');
  // What else a date may be read from, such as a lone number, is hardly meant.
  const since =
    time === undefined ? undefined : /^\d{4}-\d\d-\d\d/.test(time) ? Date.parse(time) : NaN;
  if (Number.isNaN(since)) throw bad('statusTimestampAfter must be an ISO 8601 time');
  const context = requireString(params, 'contextId');
  const pageToken = requireString(params, 'pageToken');
  return {
    ...(context !== undefined && { context }),
    ...(state && { state }),
    // The protocol's "after" includes the time itself.
    ...(since !== undefined && { changedAfter: since - 1 }),
    pageSize,
    ...(pageToken !== undefined && { pageToken }),
    historyLength: readLength(params['historyLength']) ?? 0,
    artifacts: params['includeArtifacts'] === true,
  };
}

/** A push config, without the task it is for; an id is made up later if there is none. */
export function readPush(config: JsonObject): Omit<PushConfig, 'taskId'> {
  const url = requireString(config, 'url');
  if (url === undefined || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw bad('the url of a push notification config must be an http or https address');
  const token = header(config, 'token');
  const authentication = config['authentication'];
  const push = {
    id: requireString(config, 'id') ?? '',
    url,
    ...(token !== undefined && { token }),
    ...(isObject(authentication) && { authentication: readAuthentication(authentication) }),
  };
  if (JSON.stringify(push).length > MAX_PUSH_CHARS)
    throw bad(`a push notification config has at most ${MAX_PUSH_CHARS} characters`);
  return push;
}

/** It is kept beside the log, where no entry has its limit of bytes, and goes out in headers. */
const MAX_PUSH_CHARS = 8192;

function readAuthentication(given: JsonObject): NonNullable<PushConfig['authentication']> {
  const scheme = header(given, 'scheme');
  const credentials = header(given, 'credentials');
  if (scheme === undefined) throw bad('authentication.scheme is required, such as Bearer');
  return { scheme, ...(credentials !== undefined && { credentials }) };
}

function readPart(part: unknown, index: number): Part {
  const where = `message.parts[${index}]`;
  const object = need(part, where);
  const mediaType = requireString(object, 'mediaType', `${where}.`);
  const filename = requireString(object, 'filename', `${where}.`);
  const { text: words, url, raw, data, metadata } = object;
  const given = [words, url, raw, data].filter((value) => value !== undefined);
  if (given.length !== 1) throw bad(`${where} needs exactly one of text, data, url, raw`);
  const more = isObject(metadata) && { metadata };
  const type = { ...(mediaType !== undefined && { mediaType }), ...more };
  const name = filename !== undefined && { filename };
  if (data !== undefined) return { data, ...type };
  const [value] = given;
  if (typeof value !== 'string') throw bad(`${where}: text, url and raw are strings`);
  if (words !== undefined) return { text: value, ...type };
  if (url !== undefined) return { url: value, ...type, ...name };
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(value)) throw bad(`${where}.raw is not base64`);
  const bytes = new Uint8Array(Buffer.from(value, 'base64'));
  return { bytes, ...name, ...more, mediaType: mediaType ?? 'application/octet-stream' };
}

/** A data part `{answers: […]}` answers what the task asked; everything else is content. */
function takeAnswers(given: readonly Part[]): Pick<SendRequest, 'answers' | 'parts'> {
  const answers: Answer[] = [];
  const parts: Part[] = [];
  for (const part of given) {
    const inside = 'data' in part && isObject(part.data) ? part.data['answers'] : undefined;
    if (!Array.isArray(inside)) parts.push(part);
    // Not `push(...all)`: a hundred thousand arguments overflow the stack.
    else for (const answer of inside as readonly unknown[]) answers.push(readAnswer(answer));
  }
  return { answers, parts };
}

function readAnswer(answer: unknown): Answer {
  if (isObject(answer) && typeof answer['id'] === 'string') {
    const { id, action, content } = answer;
    if (action === 'accept' || action === 'decline' || action === 'cancel') {
      return { id, action, ...(content !== undefined && { content }) };
    }
  }
  throw bad('an answer needs id and action (accept, decline or cancel)');
}

function need(value: unknown, name: string): JsonObject {
  if (!isObject(value)) throw bad(`${name} must be an object`);
  return value;
}

/** A string member; absent, null and empty are the same, as protobuf has it. */
export function requireString(object: JsonObject, member: string, where = ''): string | undefined {
  const value = object[member];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw bad(`${where}${member} must be a string`);
  return value;
}

/** A string that becomes part of a header: a line break in it would begin another one. */
function header(object: JsonObject, member: string): string | undefined {
  const value = requireString(object, member);
  if (value !== undefined && !/^[\x20-\x7e]*$/.test(value))
    throw bad(`${member} must be plain printable text`);
  return value;
}

const bad = (message: string): A2AError => new A2AError('INVALID_PARAMS', message);
