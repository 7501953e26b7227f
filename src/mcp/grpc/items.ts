import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/**
 * How the items of one list are laid out in their message of mcp.proto. Written by hand, straight
 * from and to JSON, because lists are long: generated code goes through an object for every item,
 * at three times the cost. A test holds it against the generated code.
 */
export interface Layout {
  readonly fields: ReadonlyMap<string, Field>;
  /** By number. */
  readonly keys: readonly (readonly [key: string, kind: Field['kind']] | undefined)[];
}

interface Field {
  readonly number: number;
  /** Text as it is, or any value as JSON. */
  readonly kind: 'text' | 'json';
}

/** The last field of every item: the members that have none of their own. */
const EXTRA = 9;

const layout = (texts: Record<string, number>, jsons: Record<string, number>): Layout => {
  const all: (readonly [string, Field])[] = [
    ...Object.entries(texts).map(([key, number]) => [key, { number, kind: 'text' }] as const),
    ...Object.entries({ icons: 7, _meta: 8, ...jsons }).map(
      ([key, number]) => [key, { number, kind: 'json' }] as const,
    ),
  ];
  const keys: Layout['keys'][number][] = [];
  for (const [key, { number, kind }] of all) keys[number] = [key, kind];
  return { fields: new Map(all), keys };
};

const COMMON = { name: 2, title: 3, description: 4, mimeType: 5 };

export const TOOL: Layout = layout(
  { name: 1, title: 2, description: 3 },
  { inputSchema: 4, outputSchema: 5, annotations: 6 },
);
export const RESOURCE: Layout = layout({ uri: 1, ...COMMON }, { annotations: 6 });
export const RESOURCE_TEMPLATE: Layout = layout({ uriTemplate: 1, ...COMMON }, { annotations: 6 });
export const PROMPT: Layout = layout({ name: 1, title: 2, description: 3 }, { arguments: 4 });

export interface Batch {
  readonly items: readonly JsonObject[];
  readonly checkpoint: string | undefined;
}

const ITEM_TAG = (1 << 3) | 2;
const CHECKPOINT_TAG = (2 << 3) | 2;

/** Room before an item for its tag and its length, which is known when it is written. */
const HEAD_BYTES = 6;
const SCRATCH_BYTES = 64 * 1024;

/** Where items are written, one after the other: nothing here waits, so one place serves all. */
let scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);

/** One item as a field of its batch, so that a batch is its items one after the other. */
export function encodeItem({ fields }: Layout, item: JsonObject): Buffer {
  let extra: Record<string, unknown> | undefined;
  let at = HEAD_BYTES;
  for (const key of Object.keys(item)) {
    const value = item[key];
    if (value === undefined) continue;
    const field = fields.get(key);
    if (field?.kind === 'json') at = writeText(at, field.number, JSON.stringify(value));
    else if (field && typeof value === 'string' && isWellFormed(value))
      at = writeText(at, field.number, value);
    else (extra ??= bare())[key] = value;
  }
  if (extra) at = writeText(at, EXTRA, JSON.stringify(extra));
  const size = at - HEAD_BYTES;
  const start = HEAD_BYTES - 1 - varintBytes(size);
  scratch[start] = ITEM_TAG;
  writeVarint(scratch, start + 1, size);
  const bytes = Buffer.from(scratch.subarray(start, at));
  if (scratch.length > 16 * SCRATCH_BYTES) scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES);
  return bytes;
}

function writeText(at: number, number: number, text: string): number {
  const length = Buffer.byteLength(text);
  const end = at + HEAD_BYTES + length;
  if (end > scratch.length) {
    const larger = Buffer.allocUnsafeSlow(2 * end);
    scratch.copy(larger, 0, 0, at);
    scratch = larger;
  }
  scratch[at] = (number << 3) | 2;
  const from = writeVarint(scratch, at + 1, length);
  scratch.write(text, from);
  return from + length;
}

/** A batch of items that are encoded already. */
export function encodeBatch(items: readonly Buffer[], checkpoint: string | undefined): Uint8Array {
  if (checkpoint === undefined) return Buffer.concat(items);
  const text = Buffer.from(checkpoint);
  const head = Buffer.allocUnsafe(1 + varintBytes(text.length));
  head[0] = CHECKPOINT_TAG;
  writeVarint(head, 1, text.length);
  return Buffer.concat([...items, head, text]);
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

function decodeItem({ keys }: Layout, reader: Reader, length: number): JsonObject {
  const end = reader.within(length);
  const item: Record<string, unknown> = {};
  while (reader.at < end) {
    const tag = reader.varint();
    const known = (tag & 7) === 2 ? keys[tag >> 3] : undefined;
    if (known) {
      const text = reader.text();
      item[known[0]] = known[1] === 'json' ? parse(text) : text;
    } else if (tag === ((EXTRA << 3) | 2)) {
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

/** Without a prototype, for a member may be called __proto__. */
const bare = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const malformed = (what: string): DuolaneError =>
  new DuolaneError('malformed', `the server sent a batch that cannot be read: ${what}`);

/** UTF-8 has no half surrogates; JSON text escapes them. */
export const isWellFormed = (text: string): boolean =>
  // Node 20 has it; the types of ES2023 do not.
  (text as string & { isWellFormed(): boolean }).isWellFormed();

const varintBytes = (value: number): number =>
  value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;

function writeVarint(bytes: Buffer, at: number, value: number): number {
  let [rest, place] = [value, at];
  while (rest >= 0x80) {
    bytes[place] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
    place += 1;
  }
  bytes[place] = rest;
  return place + 1;
}
