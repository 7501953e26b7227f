import { endsInHighSurrogate, safePrefix } from '../text/surrogates.ts';
import type { AgentEvent } from '../types.ts';

type Delta = Extract<AgentEvent, { readonly type: 'text.delta' | 'reasoning.delta' }>;
type End = Extract<AgentEvent, { readonly type: 'text.end' | 'reasoning.end' }>;

/** A block longer than this is closed and goes on as the next: its end must fit into one entry. */
const BLOCK_CHARS = 150_000;

/** What the agent calls one block; it may become several, if it was closed in between. */
interface Source {
  readonly key: string;
  /**
   * What was said under this id since it was last closed, and what was said before that. Apart, so
   * that a text in one block is one string with its end, and not a copy of it.
   */
  last: string;
  before: string;
  /** The first half of a character whose second half is in the next delta. */
  half: string;
  /** What came before both and is not kept: the agent has ended it. */
  ended?: { readonly length: number; readonly hash: number };
}

/** A text that is ended is remembered by its hash if it is longer than this. */
const KEPT_CHARS = 256;

interface OpenBlock {
  readonly type: 'text' | 'reasoning';
  readonly id: string;
  readonly source: Source;
  readonly path: readonly string[] | undefined;
}

/** One lane for each sub-agent: they may talk at the same time. */
export const speakerKey = (path: readonly string[] | undefined): string =>
  path?.length ? JSON.stringify(path) : '';

/**
 * Laws 2 and 3: in a lane at most one block is open, an id names one block of the run, and its end
 * says exactly what its deltas said. A piece that only the end knew is sent before it; a whole
 * text that comes again adds nothing.
 */
export class BlockTracker {
  readonly #open = new Map<string, OpenBlock>();
  readonly #sources = new Map<string, Source>();
  readonly #used = new Map<string, number>();
  readonly #warn: (message: string) => void;
  /** The text of blocks that are closed; an open one has its own. */
  #closedText = '';
  #stepAt = 0;

  constructor(warn: (message: string) => void) {
    this.#warn = warn;
  }

  /** What the agent itself has said and not taken back. */
  get text(): string {
    const open = this.#open.get('');
    return open?.type === 'text' ? this.#closedText + open.source.last : this.#closedText;
  }

  delta(event: Delta): AgentEvent[] {
    if (event.delta === '') return [];
    const type = event.type === 'text.delta' ? 'text' : 'reasoning';
    const source = this.#source(type, event);
    const said = source.half + event.delta;
    const whole = endsInHighSurrogate(said) ? said.slice(0, -1) : said;
    source.half = said.slice(whole.length);
    const events: AgentEvent[] = [];
    for (const delta of pieces(whole)) {
      const open = this.#open.get(speakerKey(event.path));
      if (open && (open.source !== source || source.last.length + delta.length > BLOCK_CHARS))
        events.push(...this.close(event.path));
      const { id } = this.#open.get(speakerKey(event.path)) ?? this.#begin(type, event, source);
      events.push({ ...event, id, delta });
      source.last += delta;
    }
    return events;
  }

  /** `silent`: nothing more may be said, so a piece that is missing stays missing. */
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
    // Thinking that the provider hides has no text, only a signature to hand back.
    if (signature === undefined || totalOf(source) !== '' || source.ended) return events;
    const before = this.close(event.path);
    this.#begin(type, event, source);
    return [...before, ...this.close(event.path, signature)];
  }

  close(path: readonly string[] | undefined, signature?: string): AgentEvent[] {
    const lane = speakerKey(path);
    const block = this.#open.get(lane);
    if (!block) return [];
    this.#open.delete(lane);
    const text = block.source.last;
    if (block.type === 'text' && lane === '') this.#closedText += text;
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

  /** A step begins or ends here: `discard` goes back to this place. */
  mark(path: readonly string[] | undefined): void {
    if (speakerKey(path) === '') this.#stepAt = this.text.length;
  }

  /** The text of the step is void: the same ids may say it again. */
  discard(path: readonly string[] | undefined): void {
    const lane = speakerKey(path);
    for (const [key, source] of this.#sources)
      if (source.key.startsWith(`${lane}\n`)) this.#sources.delete(key);
    if (lane === '') this.#closedText = this.#closedText.slice(0, this.#stepAt);
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

  #missing(source: Source, { id, text: whole }: End): string {
    const { last, ended } = source;
    let total = totalOf(source);
    const isLonger = ended !== undefined && whole.length >= ended.length;
    if (ended && !isLonger && total === '') return '';
    const follows = isLonger && hashOf(whole.slice(0, ended.length)) === ended.hash;
    const text = follows ? whole.slice(ended.length) : whole;
    if (ended && !follows) total = last;
    if (total.startsWith(text)) return '';
    if (text.startsWith(total)) return text.slice(total.length);
    if (last !== '' && text.startsWith(last)) return text.slice(last.length);
    this.#warn(`the end of block ${id} says something else than its deltas; the deltas count`);
    return '';
  }
}

/** What was ended is only compared with from here on, and a hash is enough for that. */
function forget(source: Source): void {
  const total = totalOf(source);
  if (source.ended || total.length <= KEPT_CHARS) return;
  source.ended = { length: total.length, hash: hashOf(total) };
  source.before = '';
  source.last = '';
}

/** All that was said under the id and is kept. */
const totalOf = ({ before, last }: Source): string => before + last;

/** 53 bits (cyrb53): it tells a repeated text from another one, nothing depends on it for safety. */
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
