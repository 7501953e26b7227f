import { speakerKey } from '../speaker-key.ts';
import { endsInHighSurrogate, safePrefix } from '../text/surrogates.ts';
import type { AgentEvent } from '../types.ts';

type Delta = Extract<AgentEvent, { readonly type: 'text.delta' | 'reasoning.delta' }>;
type End = Extract<AgentEvent, { readonly type: 'text.end' | 'reasoning.end' }>;

/**
 * A longer block is closed and goes on as the next block, since its end must fit into one entry.
 */
const BLOCK_CHARS = 150_000;

/** A block as the agent names it. It becomes several blocks if it was closed in between. */
interface Source {
  readonly key: string;
  /**
   * The text since the block was last closed, and the text before that. They are kept apart, so
   * that a text in one block is the same string as the text of its end, and not a copy of it.
   */
  last: string;
  before: string;
  /** The first half of a surrogate pair whose second half is in the next delta. */
  half: string;
  /** Length and hash of the text before both, which the agent has ended and which is not kept. */
  ended?: { readonly length: number; readonly hash: number };
}

/** An ended text that is longer than this is remembered by its hash. */
const KEPT_CHARS = 256;

interface OpenBlock {
  readonly type: 'text' | 'reasoning';
  readonly id: string;
  readonly source: Source;
  readonly path: readonly string[] | undefined;
}

/**
 * Keeps laws 2 and 3: a speaker has at most one open block, an id names one block of the run, and
 * the text of an end equals the text of its deltas. Text that only the end has is sent as a delta
 * before it; a complete text that is repeated adds nothing.
 */
export class BlockTracker {
  readonly #open = new Map<string, OpenBlock>();
  readonly #sources = new Map<string, Source>();
  readonly #used = new Map<string, number>();
  readonly #warn: (message: string) => void;
  /** The text of closed blocks; that of an open block is in its source. */
  #closedText = '';
  #stepAt = 0;

  constructor(warn: (message: string) => void) {
    this.#warn = warn;
  }

  /** The text of the agent itself, without sub-agents and without discarded text. */
  get text(): string {
    const open = this.#open.get('');
    return open?.type === 'text' ? this.#closedText + open.source.last : this.#closedText;
  }

  delta(event: Delta): AgentEvent[] {
    if (event.delta === '') return [];
    const type = event.type === 'text.delta' ? 'text' : 'reasoning';
    const source = this.#source(type, event);
    const given = source.half + event.delta;
    const text = endsInHighSurrogate(given) ? given.slice(0, -1) : given;
    source.half = given.slice(text.length);
    const events: AgentEvent[] = [];
    for (const delta of pieces(text)) {
      const open = this.#open.get(speakerKey(event.path));
      if (open && (open.source !== source || source.last.length + delta.length > BLOCK_CHARS))
        events.push(...this.close(event.path));
      const { id } = this.#open.get(speakerKey(event.path)) ?? this.#begin(type, event, source);
      events.push({ ...event, id, delta });
      source.last += delta;
    }
    return events;
  }

  /** Ends a block. `silent`: the run is stopped, so text that only the end has is not sent. */
  end(event: End, silent = false): AgentEvent[] {
    const type = event.type === 'text.end' ? 'text' : 'reasoning';
    const source = this.#source(type, event);
    source.half = '';
    const missing = silent ? '' : this.#missing(source, event);
    const { signature, ...rest } = event;
    const events = missing
      ? this.delta({ ...unsigned(rest), type: `${type}.delta`, delta: missing } as Delta)
      : [];
    const open = this.#open.get(speakerKey(event.path));
    if (open?.source === source) {
      events.push(...this.close(event.path, signature));
      forget(source);
      return events;
    }
    // Reasoning that the provider hides has no text, only a signature that it must get back.
    if (signature === undefined || totalOf(source) !== '' || source.ended) return events;
    const before = this.close(event.path);
    this.#begin(type, event, source);
    return [...before, ...this.close(event.path, signature)];
  }

  close(path: readonly string[] | undefined, signature?: string): AgentEvent[] {
    const speaker = speakerKey(path);
    const block = this.#open.get(speaker);
    if (!block) return [];
    this.#open.delete(speaker);
    const text = block.source.last;
    if (block.type === 'text' && speaker === '') this.#closedText += text;
    return [
      {
        type: `${block.type}.end`,
        id: block.id,
        text,
        ...(signature !== undefined && { signature }),
        ...(block.path && { path: block.path }),
      },
    ];
  }

  closeAll(): AgentEvent[] {
    return [...this.#open.values()].flatMap((block) => this.close(block.path));
  }

  /** Marks the start or the end of a step: `discard` drops the text after the last mark. */
  mark(path: readonly string[] | undefined): void {
    if (speakerKey(path) === '') this.#stepAt = this.text.length;
  }

  /** Discards the text of the step. The same ids may then repeat it. */
  discard(path: readonly string[] | undefined): void {
    const speaker = speakerKey(path);
    for (const [key, source] of this.#sources)
      if (source.key.startsWith(`${speaker}\n`)) this.#sources.delete(key);
    if (speaker === '') this.#closedText = this.#closedText.slice(0, this.#stepAt);
  }

  #begin(type: OpenBlock['type'], event: Delta | End, source: Source): OpenBlock {
    source.before += source.last;
    source.last = '';
    const block: OpenBlock = { type, id: this.#unusedId(event.id), source, path: event.path };
    this.#open.set(speakerKey(event.path), block);
    return block;
  }

  #unusedId(wanted: string): string {
    for (let id = wanted; ;) {
      const times = this.#used.get(id) ?? 0;
      this.#used.set(id, times + 1);
      if (times === 0) return id;
      id = `${wanted}#${times + 1}`;
    }
  }

  #source(type: OpenBlock['type'], { id, path }: Delta | End): Source {
    const key = `${speakerKey(path)}\n${type}\n${id}`;
    const known = this.#sources.get(key);
    if (known) return known;
    const source: Source = { key, last: '', before: '', half: '' };
    this.#sources.set(key, source);
    return source;
  }

  /** Returns the part of an end's text that no delta has had. */
  #missing(source: Source, { id, text: given }: End): string {
    const { last, ended } = source;
    let total = totalOf(source);
    const isLonger = ended !== undefined && given.length >= ended.length;
    if (ended && !isLonger && total === '') return '';
    const follows = isLonger && hashOf(given.slice(0, ended.length)) === ended.hash;
    const text = follows ? given.slice(ended.length) : given;
    if (ended && !follows) total = last;
    if (total.startsWith(text)) return '';
    if (text.startsWith(total)) return text.slice(total.length);
    if (last !== '' && text.startsWith(last)) return text.slice(last.length);
    this.#warn(`the end of block "${id}" has other text than its deltas; the deltas count`);
    return '';
  }
}

/** Replaces an ended text by its hash: from here on it is only compared. */
function forget(source: Source): void {
  const total = totalOf(source);
  if (source.ended || total.length <= KEPT_CHARS) return;
  source.ended = { length: total.length, hash: hashOf(total) };
  source.before = '';
  source.last = '';
}

/** The text of the id that is kept. */
const totalOf = ({ before, last }: Source): string => before + last;

/** 53 bits (cyrb53). It finds a repeated text; nothing depends on it for security. */
function hashOf(text: string): number {
  let one = 0xdeadbeef;
  let two = 0x41c6ce57;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    one = Math.imul(one ^ char, 2654435761);
    two = Math.imul(two ^ char, 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(two ^ (two >>> 13), 3266489909);
  two = Math.imul(two ^ (two >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return 4294967296 * (2097151 & two) + (one >>> 0);
}

const unsigned = ({ type: _type, text: _text, ...rest }: Omit<End, 'signature'>): object => rest;

function* pieces(text: string): Generator<string> {
  for (let rest = text; rest !== '';) {
    const piece = safePrefix(rest, BLOCK_CHARS);
    yield piece;
    rest = rest.slice(piece.length);
  }
}
