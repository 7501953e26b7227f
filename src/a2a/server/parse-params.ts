import type { Answer } from '../../ask.ts';
import type { Part, TaskState } from '../../event/types.ts';
import { asObject, isObject, omitUndefined, type JsonObject } from '../../json.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { PushConfig } from '../protocol/model.ts';
import { STATES } from '../protocol/task-encoder.ts';

/** The validated parameters of `send` and `stream`. */
export interface SendRequest {
  readonly messageId: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
  readonly metadata?: JsonObject;
  readonly historyLength?: number;
  /** Whether the response waits for the end of the run. */
  readonly blocking: boolean;
  /** A push receiver for the task, which has no id yet. */
  readonly push?: Omit<PushConfig, 'taskId'>;
}

/** Parses the parameters of `send` and `stream`, in the form of 1.0. */
export function readSend(
  params: JsonObject,
  { maxParts }: { readonly maxParts: number },
): SendRequest {
  const message = requireObject(params['message'], 'message');
  const messageId = optionalString(message, 'messageId', 'message.');
  if (messageId === undefined) throw invalid('missing message.messageId: expected a string');
  if (message['role'] !== 'ROLE_USER') throw invalid('message.role must be ROLE_USER');
  const given = message['parts'];
  if (!Array.isArray(given) || given.length === 0)
    throw invalid('message.parts must have at least one part');
  if (given.length > maxParts)
    throw invalid(
      `message.parts exceeds maxParts (${maxParts}): ${given.length} parts; send fewer`,
    );
  const configuration = asObject(params['configuration']);
  const push = configuration['taskPushNotificationConfig'];
  return omitUndefined<SendRequest>({
    messageId,
    taskId: optionalString(message, 'taskId', 'message.'),
    contextId: optionalString(message, 'contextId', 'message.'),
    historyLength: readLength(configuration['historyLength']),
    ...takeAnswers(given.map(readPart)),
    metadata: isObject(message['metadata']) ? message['metadata'] : undefined,
    blocking: configuration['returnImmediately'] !== true,
    push:
      push === undefined || push === null
        ? undefined
        : readPush(requireObject(push, 'configuration.taskPushNotificationConfig')),
  });
}

/** Parses the id of a task; `member` is the name of the parameter. */
export function readTaskId(params: JsonObject, member = 'id'): string {
  const id = optionalString(params, member);
  if (id === undefined) throw invalid(`missing ${member}: expected the id of a task`);
  return id;
}

/** Parses `historyLength`. */
export function readLength(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw invalid(`invalid historyLength ${JSON.stringify(value)}: expected an integer from 0`);
  }
  return value;
}

/** The validated parameters of `list`. */
export interface ListRequest {
  readonly context?: string;
  readonly state?: TaskState;
  readonly changedAfter?: number;
  readonly pageSize: number;
  readonly pageToken?: string;
  readonly historyLength: number;
  readonly artifacts: boolean;
}

/** Parses the parameters of `list`. */
export function readList(params: JsonObject): ListRequest {
  const pageSize = params['pageSize'] ?? 50;
  const status = optionalString(params, 'status');
  if (typeof pageSize !== 'number' || !Number.isInteger(pageSize) || pageSize < 1 || pageSize > 100)
    throw invalid('invalid pageSize: expected an integer from 1 to 100');
  const states = Object.entries(STATES) as [TaskState, string][];
  const state = states.find(([, wire]) => wire === status)?.[0];
  if (status !== undefined && status !== 'TASK_STATE_UNSPECIFIED' && !state)
    throw invalid(
      `unknown state ${JSON.stringify(status)}; available: ${Object.values(STATES).join(', ')}`,
    );
  const time = optionalString(params, 'statusTimestampAfter');
  // Date.parse also accepts other text, such as a single number, which is probably a mistake.
  const since =
    time === undefined ? undefined : /^\d{4}-\d\d-\d\d/.test(time) ? Date.parse(time) : NaN;
  if (Number.isNaN(since)) throw invalid('invalid statusTimestampAfter: expected an ISO 8601 time');
  return omitUndefined<ListRequest>({
    context: optionalString(params, 'contextId'),
    state,
    // A2A includes the time itself, `changedAfter` does not.
    changedAfter: since === undefined ? undefined : since - 1,
    pageSize,
    pageToken: optionalString(params, 'pageToken'),
    historyLength: readLength(params['historyLength']) ?? 0,
    artifacts: params['includeArtifacts'] === true,
  });
}

/** Parses a push config without its task. An empty id is replaced later. */
export function readPush(config: JsonObject): Omit<PushConfig, 'taskId'> {
  const url = optionalString(config, 'url');
  if (url === undefined || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw invalid('invalid push url: expected an http or https address');
  const token = header(config, 'token');
  const id = optionalString(config, 'id') ?? '';
  // A store may refuse such an id, or change it.
  if (/[\0\p{Surrogate}]/u.test(id))
    throw invalid('invalid id of a push config: expected valid Unicode without zero characters');
  const push = {
    id,
    url,
    ...(token !== undefined && { token }),
    ...omitUndefined({ authentication: readAuthentication(config['authentication']) }),
  };
  if (JSON.stringify(push).length > MAX_PUSH_CHARS)
    throw invalid(`invalid push config: expected at most ${MAX_PUSH_CHARS} characters`);
  return push;
}

/**
 * The largest push config: it is stored in a bookmark, which has no size limit, and sent in
 * headers.
 */
const MAX_PUSH_CHARS = 8192;

function readAuthentication(value: unknown): PushConfig['authentication'] {
  if (value === undefined || value === null) return undefined;
  const given = requireObject(value, 'authentication');
  const scheme = header(given, 'scheme');
  const credentials = header(given, 'credentials');
  if (scheme === undefined)
    throw invalid('missing authentication.scheme: expected a name such as Bearer');
  return { scheme, ...(credentials !== undefined && { credentials }) };
}

function readPart(part: unknown, index: number): Part {
  const where = `message.parts[${index}]`;
  const object = requireObject(part, where);
  const mediaType = optionalString(object, 'mediaType', `${where}.`);
  const filename = optionalString(object, 'filename', `${where}.`);
  const { text, url, raw, data, metadata } = object;
  const given = [text, url, raw, data].filter((value) => value !== undefined);
  if (given.length !== 1) throw invalid(`${where} must have exactly one of text, data, url, raw`);
  const more = isObject(metadata) && { metadata };
  const type = { ...(mediaType !== undefined && { mediaType }), ...more };
  const name = filename !== undefined && { filename };
  if (data !== undefined) return { data, ...type };
  const [value] = given;
  if (typeof value !== 'string') throw invalid(`${where}: text, url and raw must be strings`);
  if (text !== undefined) return { text: value, ...type };
  if (url !== undefined) return { url: value, ...type, ...name };
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(value))
    throw invalid(`invalid ${where}.raw: expected base64`);
  const bytes = new Uint8Array(Buffer.from(value, 'base64'));
  return { bytes, ...name, ...more, mediaType: mediaType ?? 'application/octet-stream' };
}

/**
 * Separates data parts from content that answer questions of the task, `{answers: […]}`, or bring
 * the events that it waits for, `{awaitedEvents: [{id, data}]}`.
 */
function takeAnswers(given: readonly Part[]): Pick<SendRequest, 'answers' | 'parts'> {
  const answers: Answer[] = [];
  const parts: Part[] = [];
  for (const part of given) {
    const data = 'data' in part && isObject(part.data) ? part.data : {};
    const inside = data['answers'];
    const events = isEventList(data) ? data.awaitedEvents : undefined;
    if (events) for (const { id, data: content } of events) answers.push(eventAnswer(id, content));
    else if (!Array.isArray(inside)) parts.push(part);
    // `push(...inside)` would overflow the stack with a hundred thousand answers.
    else for (const answer of inside as readonly unknown[]) answers.push(readAnswer(answer));
  }
  return { answers, parts };
}

// A data part of another shape is content, whatever its members are called.
const isEventList = (
  data: JsonObject,
): data is {
  readonly awaitedEvents: readonly { readonly id: string; readonly data?: unknown }[];
} =>
  Object.keys(data).length === 1 &&
  Array.isArray(data['awaitedEvents']) &&
  data['awaitedEvents'].length > 0 &&
  data['awaitedEvents'].every((event) => isObject(event) && typeof event['id'] === 'string');

const eventAnswer = (id: string, content: unknown): Answer =>
  content === undefined ? { id, action: 'accept' } : { id, action: 'accept', content };

function readAnswer(answer: unknown): Answer {
  if (isObject(answer) && typeof answer['id'] === 'string') {
    const { id, action, content } = answer;
    if (action === 'accept' || action === 'decline' || action === 'cancel') {
      return { id, action, ...(content !== undefined && { content }) };
    }
  }
  throw invalid('invalid answer: expected id and action (accept, decline or cancel)');
}

function requireObject(value: unknown, name: string): JsonObject {
  if (!isObject(value)) throw invalid(`${name} must be an object`);
  return value;
}

/** A member that must be a string if present. Null and empty count as absent, as in protobuf. */
export function optionalString(object: JsonObject, member: string, where = ''): string | undefined {
  const value = object[member];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value !== 'string') throw invalid(`${where}${member} must be a string`);
  return value;
}

/**
 * A string that is sent in a header. A line break in it could add a header of the caller's choice.
 */
function header(object: JsonObject, member: string): string | undefined {
  const value = optionalString(object, member);
  if (value !== undefined && !/^[\x20-\x7e]*$/.test(value))
    throw invalid(`${member} must be printable ASCII text`);
  return value;
}

const invalid = (message: string): A2AError => new A2AError('INVALID_PARAMS', message);
