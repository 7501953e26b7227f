import { DuolaneError } from '../../errors.ts';
import { decodeEntry, encodeEntry, isTextOnly } from '../../event/entry-codec.ts';
import { ENTRY_BYTES } from '../../event/truncate-event.ts';
import { isTime } from '../../event/run/parse-event.ts';
import { isDeep, MAX_DEPTH } from '../../json.ts';
import type { Entry, Note, Seq, Snapshot, TaskEvent } from '../../event/types.ts';

/** Encodes an event as the line of its entry, without the number, which only the store knows. */
export function encodeEvent(event: TaskEvent, now: number = Date.now()): string {
  if (event.at !== undefined && !isTime(event.at))
    throw new DuolaneError(
      'invalid',
      `invalid time "${String(event.at)}" of a ${event.type} event: expected whole milliseconds since 1970, at most 8640000000000000`,
    );
  const given = encodeShallow(event);
  const line = event.at === undefined ? `${given.slice(0, -1)},"at":${now}}` : given;
  // A UTF-16 unit has at most three bytes in UTF-8, so most lines need not be counted.
  if (line.length * 3 > ENTRY_BYTES && Buffer.byteLength(line) > ENTRY_BYTES)
    throw new DuolaneError(
      'too_large',
      `a ${event.type} entry exceeds the limit of an entry (${ENTRY_BYTES} bytes): ${Buffer.byteLength(line)}; put the bytes into a BlobStore and send their URL`,
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
    `a ${event.type} entry exceeds the nesting limit (${MAX_DEPTH} levels); make it flatter`,
  );
}

/** Whether the event has only strings and numbers; the longest ones need no search for nesting. */
const isFlat = (event: TaskEvent): boolean =>
  'delta' in event || event.type === 'text.end' || event.type === 'reasoning.end';

/**
 * Returns what `decodeEntry` would return for the event's line, if that needs no decoding: the
 * event has only strings, booleans and numbers, which JSON does not change and no code can change
 * later. It costs a fifth of decoding the line.
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
    else if (typeof value !== 'string' && typeof value !== 'boolean' && !isJsonNumber(value))
      return undefined;
  }
  return entry as unknown as Entry;
}

/** Whether JSON represents the number exactly: it turns NaN and Infinity to null, and -0 to 0. */
const isJsonNumber = (value: unknown): boolean => Number.isFinite(value) && !Object.is(value, -0);

/** Adds the number to an encoded event, which makes it the line of an entry. */
export const numberLine = (event: string, seq: Seq): string =>
  `${event.slice(0, -1)},"seq":${seq}}`;

export const isNote = <T extends TaskEvent>(event: T): event is T & Note =>
  event.type === 'turn.submitted' || event.type === 'cancel.requested';

/** Encodes a snapshot as a line, in the same format and version as entries. */
export function encodeSnapshot(snapshot: Snapshot): string {
  const { seq, updatedAt: at, turns, artifacts, calls, pending, answers, waits = [] } = snapshot;
  const entry: Entry = { type: 'custom', name: 'snapshot', data: snapshot, seq, at };
  const free = [artifacts, calls, pending, answers, waits].some(({ length }) => length > 0);
  // Most snapshots have only text, and need no search for bytes.
  return free || !turns.every(isTextOnly) ? encodeEntry(entry) : JSON.stringify(entry);
}

/** Decodes a snapshot. Throws `malformed` for a line that is an entry and not a snapshot. */
export function decodeSnapshot(line: string): Snapshot {
  const entry = decodeEntry(line);
  const data = entry.type === 'custom' ? (entry.data as Partial<Snapshot> | undefined) : undefined;
  if (data === null || typeof data?.task !== 'string' || data.seq !== entry.seq)
    throw new DuolaneError('malformed', 'a stored snapshot lacks its task; the store is damaged');
  return data as Snapshot;
}
