import { DuolaneError } from '../errors.ts';
import type { Encoder, Seq } from './types.ts';

/** An output with its event id, which SSE sends as `id` and a client returns as `Last-Event-ID`. */
export interface Identified<Out> {
  readonly id: string;
  readonly out: Out;
}

/**
 * The position of an output: its entry, and its number in that entry; Infinity for the last one.
 */
interface EventPosition {
  readonly seq: Seq;
  readonly part: number;
}

/** Parses an event id. `0` is the position before the first entry. Throws `invalid`. */
export function parseId(id: string): EventPosition {
  const [, seq = '', part] = /^(0|[1-9]\d{0,14})(?:\.(0|[1-9]\d{0,8}))?$/.exec(id) ?? [];
  if (seq === '')
    throw new DuolaneError(
      'invalid',
      `invalid event id ${JSON.stringify(id)}: expected an id that this stream sent, e.g. 42 or 42.0`,
    );
  return { seq: Number(seq), part: part === undefined ? Infinity : Number(part) };
}

const comparePositions = (a: EventPosition, b: EventPosition): number =>
  a.seq - b.seq || (a.part === b.part ? 0 : a.part - b.part);

/** Compares two ids in the order of the stream: `41`, `42.0`, `42.1`, `42`. Throws `invalid`. */
export const compareIds = (a: string, b: string): number =>
  comparePositions(parseId(a), parseId(b));

/**
 * The same encoder with event ids: `N` for the last output of entry N, `N.k` for the ones before.
 */
export const withIds =
  <Out>(encoder: Encoder<Out>): Encoder<Identified<Out>> =>
  (entry) => {
    const outs = encoder(entry);
    return outs.map((out, k) => ({
      id: k === outs.length - 1 ? `${entry.seq}` : `${entry.seq}.${k}`,
      out,
    }));
  };

/**
 * The same encoder for a client that resumes after an id: it must get every entry from 1 on, and
 * drops the outputs that the client has. Throws `invalid` immediately if the id is invalid.
 */
export function resume<Out>(encoder: Encoder<Out>, afterId: string): Encoder<Identified<Out>> {
  const after = parseId(afterId);
  const identified = withIds(encoder);
  return (entry) => {
    const outs = identified(entry);
    if (entry.seq > after.seq) return outs;
    return outs.filter(({ id }) => comparePositions(parseId(id), after) > 0);
  };
}
