import type { InputRequest } from '../../ask.ts';
import { type Failure, RETRYABLE } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { AgentEvent, AgentEventBody, Outcome, Part, Usage } from '../types.ts';

type Kind = 'string' | 'number' | 'object' | 'array';

/** The fields that the laws need of each event; all other fields are passed on as they are. */
const REQUIRED: Readonly<Record<AgentEventBody['type'], Readonly<Record<string, Kind>>>> = {
  'run.started': {},
  'run.finished': {},
  'step.started': { step: 'number' },
  'step.finished': { step: 'number' },
  'step.stored': { id: 'string', status: 'string', kind: 'string' },
  'run.suspended': {},
  retry: {},
  'text.delta': { id: 'string', delta: 'string' },
  'text.end': { id: 'string', text: 'string' },
  'reasoning.delta': { id: 'string', delta: 'string' },
  'reasoning.end': { id: 'string', text: 'string' },
  'tool.started': { callId: 'string', name: 'string' },
  'tool.args': { callId: 'string', delta: 'string' },
  'tool.called': { callId: 'string', name: 'string' },
  'tool.progress': { callId: 'string' },
  'tool.completed': { callId: 'string', name: 'string' },
  'tool.failed': { callId: 'string', name: 'string' },
  status: { message: 'string' },
  artifact: { artifactId: 'string', parts: 'array' },
  'input.required': { request: 'object' },
  frame: { frame: 'object' },
  custom: { name: 'string' },
};

const isKind = (value: unknown, kind: Kind): boolean =>
  kind === 'array'
    ? Array.isArray(value)
    : kind === 'object'
      ? isObject(value)
      : typeof value === kind;

/**
 * Parses what an agent yielded. Returns a sentence that says why it is not an event, if it is not.
 */
export function parseEvent(value: unknown): AgentEvent | string {
  if (!isObject(value)) return `it yielded ${value === null ? 'null' : typeof value}, not an event`;
  const type = value['type'];
  if (typeof type !== 'string' || !Object.hasOwn(REQUIRED, type))
    return `it yielded an event of unknown type ${JSON.stringify(type)}`;
  for (const [field, kind] of Object.entries(REQUIRED[type as AgentEventBody['type']]))
    if (!isKind(value[field], kind)) return `it yielded ${type} without ${field} (${kind})`;
  if (type === 'input.required' && !isInputRequest(value['request']))
    return `it yielded ${type} whose request has no id`;
  return normalizeFields(type === 'artifact' ? tidyArtifact(value) : value);
}

/**
 * Drops what is not a part. Clients read parts, some with strict protocols, and one invalid part
 * would make them refuse the task.
 */
function tidyArtifact({ name, metadata, parts, ...rest }: JsonObject): JsonObject {
  return {
    ...rest,
    ...(typeof name === 'string' && { name }),
    ...(isObject(metadata) && { metadata }),
    parts: (parts as readonly unknown[]).flatMap(readPart),
  };
}

function readPart(part: unknown): readonly Part[] {
  if (!isObject(part)) return [];
  const { text, data, url, bytes, mediaType, filename, metadata } = part;
  const type = {
    ...(typeof mediaType === 'string' && { mediaType }),
    ...(isObject(metadata) && { metadata }),
  };
  const name = typeof filename === 'string' && { filename };
  if (typeof text === 'string') return [{ text, ...type }];
  if (typeof url === 'string' || url instanceof URL)
    return [{ url: String(url), ...type, ...name }];
  if (bytes instanceof Uint8Array)
    return [{ bytes, mediaType: 'application/octet-stream', ...type, ...name }];
  return 'data' in part ? [{ data: data ?? null, ...type }] : [];
}

/** Whether the value has the one member that every question needs: an id. */
export const isInputRequest = (value: unknown): value is InputRequest =>
  isObject(value) && typeof value['id'] === 'string';

/** Drops `message` unless it is a string. */
export function normalizeRequest(request: InputRequest): InputRequest {
  const { message, ...rest } = request;
  return message === undefined || typeof message === 'string' ? request : rest;
}

/** Repairs or drops optional fields that the laws calculate with, if they have the wrong type. */
function normalizeFields(event: JsonObject): AgentEvent {
  const { at, path, usage } = event;
  const good =
    (at === undefined || isTime(at)) &&
    (path === undefined || isPath(path)) &&
    (usage === undefined || isUsage(usage));
  if (good) return event as unknown as AgentEvent;
  const { at: _at, path: _path, usage: _usage, ...rest } = event;
  return {
    ...rest,
    ...(isTime(floorMs(at)) && { at: floorMs(at) }),
    ...(isPath(path) && { path }),
    ...(isObject(usage) && { usage: counts(usage) }),
  } as unknown as AgentEvent;
}

/** The last millisecond that a `Date` can represent. */
const MAX_TIME = 8.64e15;

/** Whether the value is a time in Unix ms that every store, date and reader can represent. */
export const isTime = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) <= MAX_TIME;

const floorMs = (value: unknown): unknown =>
  typeof value === 'number' ? Math.floor(value) : undefined;

const isPath = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((name) => typeof name === 'string');

const isUsage = (value: unknown): boolean =>
  isObject(value) && Object.values(value).every((n) => Number.isFinite(n));

const counts = (usage: JsonObject): Usage =>
  Object.fromEntries(Object.entries(usage).filter(([, n]) => Number.isFinite(n)));

const OUTCOMES: ReadonlySet<unknown> = new Set<Outcome>([
  'completed',
  'failed',
  'canceled',
  'rejected',
  'input-required',
]);
export const isOutcome = (value: unknown): value is Outcome => OUTCOMES.has(value);

const isFailure = (value: unknown): value is Failure =>
  isObject(value) &&
  typeof value['code'] === 'string' &&
  Object.hasOwn(RETRYABLE, value['code']) &&
  typeof value['message'] === 'string';

/**
 * Converts an error to the failure that clients see: one of our codes and its message. The text of
 * an `internal` error, and of anything that is not a failure, may contain secrets: `withheld` gets
 * it, and clients get a general sentence.
 */
export function toEventFailure(
  value: unknown,
  withheld: (message: string, stack?: string) => void,
): Failure {
  if (isFailure(value) && value.code !== 'internal') {
    const { code, message, status, retryAfterMs } = value;
    return {
      code,
      message,
      retryable: value.retryable === undefined ? RETRYABLE[code] : Boolean(value.retryable),
      ...(typeof status === 'number' && { status }),
      ...(typeof retryAfterMs === 'number' && { retryAfterMs }),
    };
  }
  const { message, stack } = isObject(value) ? value : { message: value };
  const cause = value instanceof Error && value.cause instanceof Error ? value.cause.stack : stack;
  withheld(String(message), typeof cause === 'string' ? cause : undefined);
  return {
    code: 'internal',
    message: 'Something went wrong inside; the log of the server has the details.',
    retryable: false,
  };
}
