import type { Answer } from '../ask.ts';
import type { Part } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';
import { decodeMessage03 } from './codec-0.3.ts';
import { Refusal } from './errors.ts';

export type Version = '0.3' | '1.0';

/** What a caller sent, checked once, in our words. */
export interface Incoming {
  readonly messageId: string;
  readonly taskId?: string;
  readonly contextId?: string;
  readonly parts: readonly Part[];
  readonly answers: readonly Answer[];
  readonly metadata?: JsonObject;
  readonly historyLength?: number;
  /** Whether the answer waits for the end of the run. */
  readonly blocking: boolean;
}

/** The parameters of send and stream, either dialect. */
export function readSend(params: unknown, version: Version): Incoming {
  const object = need(params, 'params');
  const raw = need(object['message'], 'message');
  const message = version === '0.3' ? decodeMessage03(raw) : raw;
  const messageId = text(message['messageId'], 'message.messageId');
  if (messageId === undefined || messageId === '') throw bad('message.messageId is required');
  if (message['role'] !== 'ROLE_USER') throw bad('message.role must be that of the user');
  const parts = message['parts'];
  if (!Array.isArray(parts) || parts.length === 0)
    throw bad('message.parts needs at least one part');
  const configuration = isObject(object['configuration']) ? object['configuration'] : {};
  const taskId = text(message['taskId'], 'message.taskId');
  const contextId = text(message['contextId'], 'message.contextId');
  const historyLength = readLength(configuration['historyLength']);
  const { answers, rest } = takeAnswers(parts.map(readPart));
  return {
    messageId,
    ...(taskId && { taskId }),
    ...(contextId && { contextId }),
    parts: rest,
    answers,
    ...(isObject(message['metadata']) && { metadata: message['metadata'] }),
    ...(historyLength !== undefined && { historyLength }),
    blocking:
      version === '0.3'
        ? configuration['blocking'] !== false
        : configuration['returnImmediately'] !== true,
  };
}

/** The parameters of everything that names one task. */
export function readTaskId(params: unknown): { readonly id: string; readonly params: JsonObject } {
  const object = need(params, 'params');
  const id = text(object['id'], 'id');
  if (!id) throw bad('id is required: which task?');
  return { id, params: object };
}

export function readLength(value: unknown): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw bad(`historyLength must be a whole number from 0, got ${JSON.stringify(value)}`);
  }
  return value;
}

function readPart(part: unknown, index: number): Part {
  if (!isObject(part)) throw bad(`message.parts[${index}] is not an object`);
  const mediaType = text(part['mediaType'], `message.parts[${index}].mediaType`);
  const filename = text(part['filename'], `message.parts[${index}].filename`);
  const more = {
    ...(mediaType !== undefined && { mediaType }),
    ...(filename !== undefined && { filename }),
  };
  if (typeof part['text'] === 'string') return { text: part['text'], ...more };
  if (typeof part['url'] === 'string') return { url: part['url'], ...more };
  if (typeof part['raw'] === 'string') {
    return {
      bytes: new Uint8Array(Buffer.from(part['raw'], 'base64')),
      ...more,
      mediaType: mediaType ?? 'application/octet-stream',
    };
  }
  if (part['data'] !== undefined)
    return { data: part['data'], ...(mediaType !== undefined && { mediaType }) };
  throw bad(`message.parts[${index}] needs one of text, data, url, raw`);
}

/** A data part `{answers: […]}` answers what the task asked; everything else is content. */
function takeAnswers(parts: readonly Part[]): {
  readonly answers: readonly Answer[];
  readonly rest: readonly Part[];
} {
  const answers: Answer[] = [];
  const rest: Part[] = [];
  for (const part of parts) {
    const given = 'data' in part && isObject(part.data) ? part.data['answers'] : undefined;
    if (Array.isArray(given)) answers.push(...given.map(readAnswer));
    else rest.push(part);
  }
  return { answers, rest };
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

function text(value: unknown, name: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw bad(`${name} must be a string`);
  return value;
}

const bad = (message: string): Refusal => new Refusal('INVALID_PARAMS', message);
