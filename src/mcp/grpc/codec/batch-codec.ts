import { type DuolaneError, malformed } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { isWellFormed, parse } from './json-text.ts';
import { EXTRA_TAG, type Layout, tagOf } from './field-layout.ts';

const ITEM_TAG = tagOf(1);
const CHECKPOINT_TAG = tagOf(2);

const MAX_ITEMS = 32;
const MAX_BYTES = 256 * 1024;

/**
 * Encodes items that are sent together. It builds a string with one character per byte and writes
 * it once: engines join strings fast, while a buffer call for every member is expensive.
 */
export class BatchWriter {
  readonly #layout: Layout;
  #bytes = '';
  #items = 0;

  constructor(layout: Layout) {
    this.#layout = layout;
  }

  get empty(): boolean {
    return this.#items === 0;
  }

  get full(): boolean {
    return this.#items >= MAX_ITEMS || this.#bytes.length >= MAX_BYTES;
  }

  /** Adds an item. An item that JSON cannot encode is thrown and not added. */
  add(item: JsonObject): void {
    this.#bytes += field(ITEM_TAG, encodeItem(this.#layout, item));
    this.#items += 1;
  }

  /**
   * Returns the batch as a message, with the checkpoint after its last item, and starts the next
   * batch.
   */
  take(checkpoint: string | undefined): Uint8Array {
    if (checkpoint !== undefined) this.#bytes += field(CHECKPOINT_TAG, utf8(checkpoint));
    const message = Buffer.from(this.#bytes, 'latin1');
    this.#bytes = '';
    this.#items = 0;
    return message;
  }
}

function encodeItem({ fields }: Layout, item: JsonObject): string {
  let bytes = '';
  let extra: Record<string, unknown> | undefined;
  for (const key of Object.keys(item)) {
    const value = item[key];
    if (value === undefined) continue;
    const known = fields.get(key);
    if (known?.kind === 'json') bytes += field(known.tag, utf8(JSON.stringify(value)));
    else if (known && typeof value === 'string' && isWellFormed(value))
      bytes += field(known.tag, utf8(value));
    else (extra ??= bare())[key] = value;
  }
  return extra ? bytes + field(EXTRA_TAG, utf8(JSON.stringify(extra))) : bytes;
}

/** The text with one character per UTF-8 byte; most texts are ASCII and stay as they are. */
const utf8 = (text: string): string =>
  Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1');

const field = (tag: number, bytes: string): string => head(tag, bytes.length) + bytes;

/** A tag of one byte and a length as varint. */
function head(tag: number, length: number): string {
  if (length < 0x80) return String.fromCharCode(tag, length);
  if (length < 0x4000) return String.fromCharCode(tag, (length & 0x7f) | 0x80, length >> 7);
  let bytes = String.fromCharCode(tag);
  let rest = length;
  for (; rest >= 0x80; rest >>>= 7) bytes += String.fromCharCode((rest & 0x7f) | 0x80);
  return bytes + String.fromCharCode(rest);
}

/** An object without a prototype, because a member may be called `__proto__`. */
const bare = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

/** A decoded batch. */
export interface ItemBatch {
  readonly items: readonly JsonObject[];
  readonly checkpoint: string | undefined;
}

/** Decodes a batch. Throws `malformed` for invalid bytes or JSON. */
export function decodeBatch(layout: Layout, bytes: Uint8Array): ItemBatch {
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

const OWN_MEMBER: PropertyDescriptor = { enumerable: true, configurable: true, writable: true };

function decodeItem({ byTag }: Layout, reader: Reader, length: number): JsonObject {
  const end = reader.within(length);
  const item: Record<string, unknown> = {};
  while (reader.at < end) {
    const tag = reader.varint();
    const field = byTag[tag];
    if (field) {
      const text = reader.text();
      item[field.key] = field.kind === 'json' ? parse(text, 'a batch') : text;
    } else if (tag === EXTRA_TAG) {
      const extra = parse(reader.text(), 'a batch');
      if (!isObject(extra)) throw undecodable('extra_json is not an object');
      // Define instead of assign: a member may be called `__proto__`.
      for (const [key, value] of Object.entries(extra))
        Object.defineProperty(item, key, { ...OWN_MEMBER, value });
    } else reader.skip(tag & 7);
  }
  if (reader.at !== end) throw undecodable('an item exceeds its length');
  return item;
}

/** Reads the protobuf wire format. */
class Reader {
  readonly #bytes: Buffer;
  at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.at >= this.#bytes.length;
  }

  /** Reads a varint of up to five bytes. A skipped one may have ten; its value is not exact. */
  varint(maxUnit = 2 ** 28): number {
    let value = 0;
    // Multiply instead of shift: a shift would truncate a length of five bytes, and a power is a
    // call.
    for (let unit = 1; unit <= maxUnit; unit *= 0x80) {
      const byte = this.#bytes[this.at];
      if (byte === undefined) break;
      this.at += 1;
      value += (byte & 0x7f) * unit;
      if (byte < 0x80) return value;
    }
    throw undecodable('a varint has no end');
  }

  text(): string {
    const length = this.varint();
    const end = this.within(length);
    const text = this.#bytes.toString('utf8', this.at, end);
    this.at = end;
    return text;
  }

  /** The end of a value of this length; throws if it is beyond the message. */
  within(length: number): number {
    const end = this.at + length;
    if (end > this.#bytes.length) throw undecodable('a length exceeds the message');
    return end;
  }

  skip(wireType: number): void {
    if (wireType === 0) this.varint(2 ** 63);
    else if (wireType === 1) this.at = this.within(8);
    else if (wireType === 2) this.at = this.within(this.varint());
    else if (wireType === 5) this.at = this.within(4);
    else throw undecodable(`unknown wire type ${wireType}`);
  }
}

const undecodable = (what: string): DuolaneError =>
  malformed(`the server sent a batch that cannot be decoded: ${what}`);
