import { DuolaneError } from '../errors.ts';
import type { Encoder, Seq } from './types.ts';

/** An output with its place in the stream: what SSE sends as `id` and gets back as `Last-Event-ID`. */
export interface Identified<Out> {
  readonly id: string;
  readonly out: Out;
}

/** Where an output stands: its entry, and which output of that entry; the last one has no number. */
interface EventPosition {
  readonly seq: Seq;
  readonly part: number;
}

/** Throws `invalid` if it is no id of ours. `0` is the place before everything. */
export function parseId(id: string): EventPosition {
  const [, seq = '', part] = /^(0|[1-9]\d{0,14})(?:\.(0|[1-9]\d{0,8}))?$/.exec(id) ?? [];
  if (seq === '')
    throw new DuolaneError(
      'invalid',
      `${JSON.stringify(id)} is no event id; ids look like 42 or 42.0, use one that was sent`,
    );
  return { seq: Number(seq), part: part === undefined ? Infinity : Number(part) };
}

const comparePositions = (a: EventPosition, b: EventPosition): number =>
  a.seq - b.seq || (a.part === b.part ? 0 : a.part - b.part);

/** In the order of the stream: `41`, `42.0`, `42.1`, `42`. Throws `invalid` on what is no id. */
export const compareIds = (a: string, b: string): number =>
  comparePositions(parseId(a), parseId(b));

/** The same encoder, its outputs with their ids: the last of entry N is `N`, earlier ones `N.k`. */
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
 * A fresh encoder that goes on after an id: fed every entry from 1, as always, it drops what the
 * client has. Throws `invalid` at once if the id is none.
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
