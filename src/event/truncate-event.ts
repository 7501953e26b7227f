import { isObject, type JsonObject } from '../json.ts';
import { safePrefix } from './text/surrogates.ts';
import { decodeEntry, encodeEntry, isDeep } from './entry-codec.ts';
import type { AgentEvent, Entry, Frame } from './types.ts';

/** The size limits of one entry in the log, and of one frame in it. */
export const ENTRY_BYTES: number = 1 << 20;
export const FRAME_BYTES: number = 16 << 10;

/** Reserved for the number and the time that the log adds. */
const STAMP_BYTES = 128;

/**
 * Returns the event, or a shorter one that fits into an entry. A frame over 16 KiB loses data and
 * gets its true size in `bytes`. Of any other event over 1 MiB, long strings are shortened and end
 * with a note. If that is not enough, or the event is nested too deeply, a note replaces its
 * payload (output, arguments, data, parts). A valid event stays valid: ids, names and blocks do not
 * change (`normalizeAgent` keeps blocks short). The given event is never changed. Put large results
 * behind a URL.
 */
export function truncateEvent(event: AgentEvent): AgentEvent {
  if (event.type === 'frame') return truncateFrame(event);
  if (isSmall(event)) return event;
  const limit = ENTRY_BYTES - STAMP_BYTES;
  const line = lineOf(event);
  const bytes = Buffer.byteLength(line);
  const deep = isDeep(line);
  if (bytes <= limit && !deep) return event;
  // Encoded and decoded, the event is a tree without cycles and shares nothing with the agent.
  const { event: copy } = decodeEntry(line) as unknown as { readonly event: AgentEvent };
  if (deep) return withoutPayload(copy, bytes);
  const shorter = shorten(copy, limit >> 4) as AgentEvent;
  return sizeOf(shorter) <= limit ? shorter : withoutPayload(copy, bytes);
}

// A character takes at most six bytes in JSON, so most events need not be encoded to be measured.
function isSmall(event: AgentEvent): boolean {
  const most = (ENTRY_BYTES - 4096) / 6;
  // The size of a result was checked: a shortened one would be another result.
  if (event.type === 'step.stored') return event.status === 'completed';
  if ('delta' in event) return event.delta.length < most;
  if (event.type === 'text.end' || event.type === 'reasoning.end')
    return event.signature === undefined && event.text.length < most;
  if (event.type === 'run.started') return isShort({ ...event });
  if (event.type !== 'run.finished' || typeof event.text !== 'string') return false;
  const { output, error, pending, text } = event;
  return output === undefined && !error && !pending && text.length < most;
}

const SIMPLE = new Set(['string', 'number', 'boolean', 'undefined']);

function isShort(members: Readonly<Record<string, unknown>>): boolean {
  let chars = 0;
  for (const name in members) {
    const value = members[name];
    chars += name.length + (typeof value === 'string' ? value.length : 0);
    if (!SIMPLE.has(typeof value)) return false;
  }
  return chars < 4096;
}

function lineOf(event: object): string {
  return encodeEntry({ type: 'custom', seq: 1, at: 0, event } as unknown as Entry);
}

const ENVELOPE_BYTES = Buffer.byteLength(lineOf({})) - '{}'.length;
const sizeOf = (value: object): number => Buffer.byteLength(lineOf(value)) - ENVELOPE_BYTES;

const note = (bytes: number): string =>
  `[cut: ${bytes} bytes were too many or too deep for one entry]`;

/** Whether a value of the log may have lost a part. Also true for a text that imitates the note. */
export const mayBeTruncated = (value: unknown): boolean =>
  /\[cut: \d+ bytes were too many/.test(JSON.stringify(value) ?? '');

/** Returns the same value with each string shortened to at most `chars`. */
function shorten(value: unknown, chars: number): unknown {
  if (typeof value === 'string')
    return value.length > chars
      ? `${safePrefix(value, chars)} ${note(Buffer.byteLength(value))}`
      : value;
  if (value instanceof Uint8Array) return value.length > chars ? note(value.length) : value;
  if (Array.isArray(value)) return value.map((item) => shorten(item, chars));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === 'bytes' && inner instanceof Uint8Array && inner.length > chars
        ? ['text', note(inner.length)]
        : [key, shorten(inner, chars)],
    ),
  );
}

/** Replaces the fields that may have any content by a note. */
function withoutPayload(event: AgentEvent, bytes: number): AgentEvent {
  const instead: Readonly<Record<string, unknown>> = {
    output: note(bytes),
    args: { cut: note(bytes) },
    data: note(bytes),
    parts: [{ text: note(bytes) }],
    metadata: {},
    pending: [],
  };
  const kept = Object.entries(shorten(event, 4096) as JsonObject).map(([key, value]) =>
    key === 'request' && isObject(value)
      ? [key, { id: value['id'], kind: value['kind'], message: note(bytes) }]
      : [key, Object.hasOwn(instead, key) ? instead[key] : value],
  );
  return Object.fromEntries(kept) as AgentEvent;
}

function truncateFrame(event: Extract<AgentEvent, { readonly type: 'frame' }>): AgentEvent {
  const { frame } = event;
  const line = lineOf(frame.data);
  const bytes = Buffer.byteLength(line) - ENVELOPE_BYTES;
  const deep = isDeep(line);
  if (bytes <= FRAME_BYTES && !deep) return event;
  const data = deep ? {} : (shorten(frame.data, FRAME_BYTES >> 4) as JsonObject);
  const small = !deep && sizeOf(data) <= FRAME_BYTES ? data : outline(frame.data, bytes);
  const short: Frame = { ...frame, data: small, bytes: frame.bytes ?? bytes };
  return { ...event, frame: short };
}

/**
 * Keeps what identifies a frame and joins a request to its response, so that the page can show it.
 */
function outline(data: JsonObject, bytes: number): JsonObject {
  const { request, response } = data;
  return {
    ...shortStrings(data),
    ...(isObject(request) && { request: shortStrings(request, ['subtype']) }),
    ...(isObject(response) && { response: shortStrings(response, ['subtype', 'request_id']) }),
    cut: note(bytes),
  };
}

/** The short strings of an object, or only those with the given names. */
const shortStrings = (object: JsonObject, names?: readonly string[]): JsonObject =>
  Object.fromEntries(
    Object.entries(object)
      .filter(([key, value]) => key.length <= 64 && typeof value === 'string')
      .filter(([key]) => names?.includes(key) ?? true)
      .slice(0, 16)
      .map(([key, value]) => [key, safePrefix(String(value), 64)]),
  );
