import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';

const NEWLINE = 0x0a;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/** A line that is not protocol: reported, then forgotten; the stream goes on behind it. */
export class Noise {
  /** `malformed`: not JSON, or not an object. `too_large`: over the byte limit. */
  readonly error: DuolaneError;
  /** The line, or the beginning of it. */
  readonly text: string;

  constructor(error: DuolaneError, text: string) {
    this.error = error;
    this.text = text;
  }
}

/**
 * Bytes, cut anywhere, to the JSON objects of their lines. No I/O: feed it, take what it returns.
 * A bad line becomes `Noise` and costs nothing but itself; a line of any length is linear.
 */
export class JsonlDecoder {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #length = 0;

  constructor({ maxBytes = DEFAULT_MAX_BYTES }: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes;
  }

  decode(chunk: Uint8Array): (JsonObject | Noise)[] {
    const out: (JsonObject | Noise)[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      this.#take(out);
      start = end + 1;
    }
    this.#keep(chunk.subarray(start));
    return out;
  }

  /** What stood behind the last newline when the stream ended. */
  flush(): (JsonObject | Noise)[] {
    const out: (JsonObject | Noise)[] = [];
    this.#take(out);
    return out;
  }

  #keep(part: Uint8Array): void {
    this.#length += part.length;
    if (this.#length <= this.#maxBytes && part.length > 0) this.#parts.push(part);
  }

  #take(out: (JsonObject | Noise)[]): void {
    const [parts, length] = [this.#parts, this.#length];
    this.#parts = [];
    this.#length = 0;
    const text = Buffer.concat(parts).toString('utf8');
    if (length > this.#maxBytes) {
      const message = `a line of ${length} bytes is over the limit of ${this.#maxBytes}; raise maxLineBytes if it is meant`;
      out.push(new Noise(new DuolaneError('too_large', message), text.slice(0, 200)));
    } else if (text.trim() !== '') {
      out.push(parseLine(text));
    }
  }
}

/** One line as an object, or as noise that says why not. */
export function parseLine(text: string): JsonObject | Noise {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
    return new Noise(new DuolaneError('malformed', 'a line is JSON but not an object'), text);
  } catch (cause) {
    return new Noise(new DuolaneError('malformed', 'a line is not JSON', { cause }), text);
  }
}

/** One JSON object as one line. JSON.stringify never emits a raw newline. */
export const encodeLine = (message: JsonObject): string => `${JSON.stringify(message)}\n`;
