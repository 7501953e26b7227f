import { speakerKey } from './speaker-key.ts';
import type { Encoder, Entry } from './types.ts';

export interface ThrottleOptions {
  /** A piece of text goes out when the length so far crosses a multiple of this. */
  readonly chars?: number;
}

type Delta = Extract<Entry, { readonly type: 'text.delta' | 'reasoning.delta' }>;

const isBlockDelta = (entry: Entry): entry is Delta =>
  entry.type === 'text.delta' || entry.type === 'reasoning.delta';

const crosses = (before: number, after: number, chars: number): boolean =>
  Math.floor(after / chars) > Math.floor(before / chars);

/**
 * Decorates an encoder so that it gets fewer and longer deltas: the deltas of a block are joined
 * until its length crosses a multiple of `chars`. Any other entry flushes the joined deltas first.
 * Every character passes once, so the output is linear in the text. Pure like its encoder.
 */
export function throttle<Out>(
  encoder: Encoder<Out>,
  { chars = 200 }: ThrottleOptions = {},
): Encoder<Out> {
  const joined = new Map<string, Delta>();
  const lengths = new Map<string, number>();
  return (entry) => {
    if (!isBlockDelta(entry)) {
      const flushed = [...joined.values()];
      joined.clear();
      if (entry.type === 'run.finished' || entry.type === 'run.started') lengths.clear();
      return [...flushed, entry].flatMap((each) => [...encoder(each)]);
    }
    const key = `${speakerKey(entry.path)}\n${entry.type}\n${entry.id}`;
    const before = lengths.get(key) ?? 0;
    const after = before + entry.delta.length;
    lengths.set(key, after);
    const delta = (joined.get(key)?.delta ?? '') + entry.delta;
    joined.set(key, { ...entry, delta });
    if (!crosses(before, after, chars)) return [];
    joined.delete(key);
    return encoder({ ...entry, delta });
  };
}

/** The text of a run so far. */
export interface TextUpdate {
  /** One per run: every update of a run replaces the one before. */
  readonly id: string;
  readonly text: string;
  /** The run has ended: this is the complete text. */
  readonly done: boolean;
}

export interface TextUpdatesOptions extends ThrottleOptions {
  /** `head120`: before the end, send only the first 120 characters and `...`. */
  readonly preview?: 'whole' | 'head120';
}

/** Beyond so many multiples of `chars`, the text must also grow by a tenth for the next update. */
const EVERY_CROSSING = 10;
const GROWTH = 1.1;

/**
 * Encodes the text of a run as updates that each have all of it so far, for clients that replace
 * text instead of appending; the last update has the complete text. With `head120`, an update is
 * sent whenever the length crosses a multiple of `chars`. With complete texts that would cost the
 * square of the length, so beyond ten times `chars` the text must also have grown by a tenth: all
 * updates of a text of n characters have less than 12 n + 65 `chars` characters together. Discarded
 * text is missing from the next update. Text of sub-agents is not included. Pure.
 */
export function textUpdates({
  chars = 200,
  preview = 'whole',
}: TextUpdatesOptions = {}): Encoder<TextUpdate> {
  let id = '';
  let text = '';
  let stepAt = 0;
  let sent = '';
  const due = (before: number): boolean => {
    if (!crosses(before, text.length, chars)) return false;
    const small = text.length <= chars * EVERY_CROSSING;
    return preview === 'head120' || small || text.length >= sent.length * GROWTH;
  };
  return (entry) => {
    if ('path' in entry && entry.path?.length) return [];
    switch (entry.type) {
      case 'run.started': {
        const next = entry.turn ?? id;
        if (next !== id || entry.discard) text = sent = '';
        id = next;
        stepAt = text.length;
        return [];
      }
      case 'step.started':
      case 'step.finished':
        stepAt = text.length;
        return [];
      case 'retry':
        if (entry.discard) text = sent = text.slice(0, stepAt);
        return [];
      case 'text.delta': {
        const before = text.length;
        text += entry.delta;
        if (!due(before)) return [];
        sent = text;
        return [{ id, text: preview === 'head120' ? head120(text) : text, done: false }];
      }
      case 'run.finished':
        return entry.outcome === 'input-required' ? [] : [{ id, text, done: true }];
      default:
        return [];
    }
  };
}

// Counts characters, not UTF-16 units, so that no character is split.
const head120 = (text: string): string =>
  `${Array.from(text.slice(0, 240)).slice(0, 120).join('')}...`;
