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
 * The same encoder, fed fewer and larger deltas: those of a block are joined until its length
 * crosses a multiple of `chars`. Whatever is no delta comes after all that was said before it.
 * Every character passes once, so the bytes stay linear. Pure like its encoder.
 */
export function throttle<Out>(
  encoder: Encoder<Out>,
  { chars = 200 }: ThrottleOptions = {},
): Encoder<Out> {
  const held = new Map<string, Delta>();
  const lengths = new Map<string, number>();
  return (entry) => {
    if (!isBlockDelta(entry)) {
      const flushed = [...held.values()];
      held.clear();
      if (entry.type === 'run.finished' || entry.type === 'run.started') lengths.clear();
      return [...flushed, entry].flatMap((each) => [...encoder(each)]);
    }
    const key = `${speakerKey(entry.path)}\n${entry.type}\n${entry.id}`;
    const before = lengths.get(key) ?? 0;
    const after = before + entry.delta.length;
    lengths.set(key, after);
    const delta = (held.get(key)?.delta ?? '') + entry.delta;
    held.set(key, { ...entry, delta });
    if (!crosses(before, after, chars)) return [];
    held.delete(key);
    return encoder({ ...entry, delta });
  };
}

export interface TextUpdate {
  /** One per run: every update of a run replaces the one before. */
  readonly id: string;
  readonly text: string;
  /** The run has ended: this is the whole text. */
  readonly done: boolean;
}

export interface TextUpdatesOptions extends ThrottleOptions {
  /** `head120`: of a text that is not done, the first 120 characters and `...`. */
  readonly preview?: 'whole' | 'head120';
}

/** Up to so many multiples of `chars` each crossing is an update; from there on it must grow by a tenth. */
const EVERY_CROSSING = 10;
const GROWTH = 1.1;

/**
 * The text of a run as updates that each carry all of it so far, for clients that replace instead
 * of concatenate; the last one has the whole. With `head120` an update goes out whenever the
 * length crosses a multiple of `chars`. Whole texts would then cost the square of the length; so
 * beyond ten times `chars` the text must also have grown by a tenth, and all updates of a text of
 * n characters together have less than 12 n + 65 `chars` characters. What is void (`discard`) is
 * gone with the next update. Text of sub-agents is not in it. Pure.
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

// Counted in whole characters, so that the cut never leaves half of one.
const head120 = (text: string): string =>
  `${Array.from(text.slice(0, 240)).slice(0, 120).join('')}...`;
