import { DuolaneError } from '../../errors.ts';
import { decodeEntry, encodeEntry, ENTRY_BYTES } from '../../event/index.ts';
import { isTime } from '../../event/run/parse-event.ts';
import { isTextOnly } from '../../event/entry-codec.ts';
import { isDeep, MAX_DEPTH } from '../../json.ts';
import type { Entry, Note, Seq, Snapshot, TaskEvent } from '../../event/types.ts';

/** An event as the line of its entry, all but the number, which only the store knows. */
export function encodeEvent(event: TaskEvent, now: number = Date.now()): string {
  if (event.at !== undefined && !isTime(event.at))
    throw new DuolaneError(
      'invalid',
      `invalid time "${String(event.at)}" of a ${event.type} event: expected whole milliseconds since 1970, at most 8640000000000000`,
    );
  const given = encodeShallow(event);
  const line = event.at === undefined ? `${given.slice(0, -1)},"at":${now}}` : given;
  // A UTF-16 unit is at most three bytes of UTF-8, so most lines need no count.
  if (line.length * 3 > ENTRY_BYTES && Buffer.byteLength(line) > ENTRY_BYTES)
    throw new DuolaneError(
      'too_large',
      `a ${event.type} entry takes ${Buffer.byteLength(line)} bytes, the limit is ${ENTRY_BYTES}; put the bytes into a BlobStore and send their URL`,
    );
  return line;
}

function encodeShallow(event: TaskEvent): string {
  let line: string | undefined;
  try {
    line = encodeEntry(event as Entry);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  if (line !== undefined && (isFlat(event) || !isDeep(line))) return line;
  throw new DuolaneError(
    'too_large',
    `a ${event.type} entry is nested more than ${MAX_DEPTH} levels deep; make it flatter`,
  );
}

/** The longest events are nothing but words, and need not be searched for nested values. */
const isFlat = (event: TaskEvent): boolean =>
  'delta' in event || event.type === 'text.end' || event.type === 'reasoning.end';

/**
 * What `decodeEntry` will make of the event's line, if it is plain to see: an event of words and numbers, with nothing
 * in it that JSON changes or that somebody may change later. It costs a fifth of reading the line.
 */
export function flatEntry(event: TaskEvent, seq: Seq, now: number): Entry | undefined {
  const entry: Record<string, unknown> = {
    ...event,
    at: event.at === undefined ? now : event.at,
    seq,
  };
  for (const name in entry) {
    if (name === '__proto__' || name === 'v') return undefined;
    const value = entry[name];
    if (value === undefined) delete entry[name];
    else if (typeof value !== 'string' && typeof value !== 'boolean' && !isPlainNumber(value))
      return undefined;
  }
  return entry as unknown as Entry;
}

const isPlainNumber = (value: unknown): boolean => Number.isFinite(value) && !Object.is(value, -0);

/** The line of an entry: JSON of the whole, as any reader may have it. */
export const numberLine = (event: string, seq: Seq): string =>
  `${event.slice(0, -1)},"seq":${seq}}`;

export const isNote = <T extends TaskEvent>(event: T): event is T & Note =>
  event.type === 'turn.submitted' || event.type === 'cancel.requested';

/** A snapshot as a line of the same format and version as the entries it was folded from. */
export function encodeSnapshot(snapshot: Snapshot): string {
  const { seq, updatedAt: at, turns, artifacts, calls, pending, answers } = snapshot;
  const entry: Entry = { type: 'custom', name: 'snapshot', data: snapshot, seq, at };
  const free = [artifacts, calls, pending, answers].some(({ length }) => length > 0);
  // Most are made of words, and need not be searched for bytes.
  return free || !turns.every(isTextOnly) ? encodeEntry(entry) : JSON.stringify(entry);
}

/** Throws `malformed` for a line that is an entry and no snapshot. */
export function decodeSnapshot(line: string): Snapshot {
  const entry = decodeEntry(line);
  const data = entry.type === 'custom' ? (entry.data as Partial<Snapshot> | undefined) : undefined;
  if (data === null || typeof data?.task !== 'string' || data.seq !== entry.seq)
    throw new DuolaneError('malformed', 'a stored snapshot is none; the store is damaged');
  return data as Snapshot;
}
