import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { isWellFormed } from './json.ts';
import { EXTRA_TAG, type Layout, tagOf } from './layout.ts';

const ITEM_TAG = tagOf(1);
const CHECKPOINT_TAG = tagOf(2);

const MAX_ITEMS = 32;
const MAX_BYTES = 256 * 1024;
/** A buffer that one large item has made longer is not kept. */
const MAX_KEPT_BYTES = 4 * MAX_BYTES;
const FIRST_BYTES = 16 * 1024;
/** The longest tag and length. */
const HEAD_BYTES = 6;

/** Items that go out together, each written as it comes. */
export class BatchWriter {
  readonly #layout: Layout;
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = 0;
  #items = 0;
  /** Bytes of the length of an item, as those of the one before: most are alike. */
  #lengthBytes = 2;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  get empty(): boolean {
    return this.#items === 0;
  }

  get full(): boolean {
    return this.#items >= MAX_ITEMS || this.#at >= MAX_BYTES;
  }

  /** What JSON has no form for is thrown, and is not in the batch. */
  add(item: JsonObject): void {
    const start = this.#at;
    try {
      this.#reserve(HEAD_BYTES);
      this.#at += 1 + this.#lengthBytes;
      this.#members(item);
      this.#lengthBytes = this.#close(start, ITEM_TAG, this.#lengthBytes);
      this.#items += 1;
    } catch (error) {
      this.#at = start;
      throw error;
    }
  }

  /** The batch as a message, with the place behind its last item; what comes is the next one. */
  take(checkpoint: string | undefined): Uint8Array {
    if (checkpoint !== undefined) this.#text(CHECKPOINT_TAG, checkpoint);
    const message = Buffer.from(this.#bytes.subarray(0, this.#at));
    if (this.#bytes.length > MAX_KEPT_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
    this.#at = 0;
    this.#items = 0;
    return message;
  }

  #members(item: JsonObject): void {
    const { fields } = this.#layout;
    let extra: Record<string, unknown> | undefined;
    for (const key of Object.keys(item)) {
      const value = item[key];
      if (value === undefined) continue;
      const field = fields.get(key);
      if (field?.kind === 'json') this.#text(field.tag, JSON.stringify(value) ?? 'null');
      else if (field && typeof value === 'string' && isWellFormed(value))
        this.#text(field.tag, value);
      else (extra ??= bare())[key] = value;
    }
    if (extra) this.#text(EXTRA_TAG, JSON.stringify(extra));
  }

  #text(tag: number, text: string): void {
    const start = this.#at;
    this.#reserve(
      HEAD_BYTES + (text.length < FIRST_BYTES ? 3 * text.length : Buffer.byteLength(text)),
    );
    const guess = varintBytes(text.length);
    this.#at += 1 + guess;
    this.#at += this.#bytes.write(text, this.#at);
    this.#close(start, tag, guess);
  }

  /** Writes tag and length before what was written behind them, `guess` bytes being left for the length. */
  #close(start: number, tag: number, guess: number): number {
    const from = start + 1 + guess;
    const length = this.#at - from;
    const needed = varintBytes(length);
    if (needed !== guess) {
      this.#reserve(needed);
      this.#bytes.copyWithin(start + 1 + needed, from, this.#at);
      this.#at += needed - guess;
    }
    this.#bytes[start] = tag;
    writeVarint(this.#bytes, start + 1, length);
    return needed;
  }

  #reserve(bytes: number): void {
    const needed = this.#at + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

/** Without a prototype, for a member may be called __proto__. */
const bare = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;

function writeVarint(bytes: Buffer, at: number, value: number): void {
  let [rest, place] = [value, at];
  while (rest >= 0x80) {
    bytes[place] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
    place += 1;
  }
  bytes[place] = rest;
}

export interface Batch {
  readonly items: readonly JsonObject[];
  readonly checkpoint: string | undefined;
}

/** Throws `malformed` for what is no batch, and for JSON that is none. */
export function decodeBatch(layout: Layout, bytes: Uint8Array): Batch {
  const reader = new Reader(bytes);
  const items: JsonObject[] = [];
  let checkpoint: string | undefined;
  while (!reader.done) {
    const tag = reader.varint();
    if (tag === ITEM_TAG) items.push(decodeItem(layout, reader, reader.varint()));
    else if (tag === CHECKPOINT_TAG) checkpoint = reader.text();
    else reader.skip(tag & 7);
  }
  return { items, checkpoint };
}

function decodeItem({ byTag }: Layout, reader: Reader, length: number): JsonObject {
  const end = reader.within(length);
  const item: Record<string, unknown> = {};
  while (reader.at < end) {
    const tag = reader.varint();
    const field = byTag[tag];
    if (field) {
      const text = reader.text();
      item[field.key] = field.kind === 'json' ? parse(text) : text;
    } else if (tag === EXTRA_TAG) {
      const extra = parse(reader.text());
      if (!isObject(extra)) throw malformed('extra_json is no object');
      // Not by assignment: a member may be called __proto__.
      for (const [key, value] of Object.entries(extra))
        Object.defineProperty(item, key, {
          value,
          enumerable: true,
          configurable: true,
          writable: true,
        });
    } else reader.skip(tag & 7);
  }
  if (reader.at !== end) throw malformed('an item is longer than it says');
  return item;
}

class Reader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.at >= this.#bytes.length;
  }

  varint(): number {
    const first = this.#bytes[this.at];
    if (first !== undefined && first < 0x80) {
      this.at += 1;
      return first;
    }
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#bytes[this.at];
      if (byte === undefined) break;
      this.at += 1;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw malformed('a number that does not end');
  }

  text(): string {
    const length = this.varint();
    const end = this.within(length);
    const text = this.#bytes.toString('utf8', this.at, end);
    this.at = end;
    return text;
  }

  /** Where what is so long ends. */
  within(length: number): number {
    const end = this.at + length;
    if (end > this.#bytes.length) throw malformed('a length beyond the end');
    return end;
  }

  skip(wireType: number): void {
    if (wireType === 0) this.#skipVarint();
    else if (wireType === 1) this.at = this.within(8);
    else if (wireType === 2) this.at = this.within(this.varint());
    else if (wireType === 5) this.at = this.within(4);
    else throw malformed(`a field of wire type ${wireType}`);
  }

  #skipVarint(): void {
    for (let n = 0; n < 10; n += 1) {
      const byte = this.#bytes[this.at];
      if (byte === undefined) break;
      this.at += 1;
      if (byte < 0x80) return;
    }
    throw malformed('a number that does not end');
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DuolaneError('malformed', 'the server sent JSON text that is none', { cause });
  }
}

const malformed = (what: string): DuolaneError =>
  new DuolaneError('malformed', `the server sent a batch that cannot be read: ${what}`);
