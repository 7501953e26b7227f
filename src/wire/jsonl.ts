import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import { InvalidLine } from './invalid-line.ts';

export { InvalidLine } from './invalid-line.ts';

const NEWLINE = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const BOM = 0xfeff;
const MIB = 1024 * 1024;
/** How many characters of an invalid line are kept. */
const EXCERPT = 1000;
/** How many bytes of the end of a line that is too long are kept. */
const TAIL = 256;

/** The limit of a decoder. */
export interface LineOptions {
  /** The longest accepted line, 64 MiB by default; a longer one becomes an `InvalidLine`. */
  readonly maxBytes?: number;
}

/**
 * Splits bytes, in chunks of any size, into lines of text. It does no I/O: pass it chunks, use what
 * it returns, and call `flush` at the end.
 *
 * A line ends with `\n` or `\r\n` and nothing else; blank lines and a byte order mark at the
 * beginning are dropped. Time is linear in the bytes, whatever the chunks; memory is that of one
 * line, at most `maxBytes`. A chunk is not kept, so its owner may overwrite it afterwards.
 */
export class LineDecoder {
  readonly #maxBytes: number;
  #rest: Buffer = Buffer.alloc(0); // the beginning of a line that is not yet complete
  #length = 0;
  #tail: Buffer = Buffer.alloc(0); // the newest bytes of a line that may exceed the limit
  #begun = false;

  constructor({ maxBytes = 64 * MIB }: LineOptions = {}) {
    this.#maxBytes = maxBytes;
  }

  /** Returns the lines that the chunk completes. */
  decode(chunk: Uint8Array): (string | InvalidLine)[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const out: (string | InvalidLine)[] = [];
    let start = 0;
    const last = bytes.lastIndexOf(NEWLINE);
    while (start <= last) {
      if (this.#length === 0 && last - start <= this.#maxBytes) {
        // None of these lines can exceed the limit, and in UTF-8 a newline byte is never part of
        // another character, so the complete range is decoded in one step.
        for (const line of bytes.toString('utf8', start, last).split('\n')) this.#emit(out, line);
        start = last + 1;
      } else {
        const end = bytes.indexOf(NEWLINE, start);
        this.#keep(bytes.subarray(start, end));
        this.#take(out);
        start = end + 1;
      }
    }
    if (start < bytes.length) this.#keep(bytes.subarray(start));
    return out;
  }

  /**
   * Same as `decode`, line by line and in order. Each line is first passed to `take` as bytes from
   * `start` to `end`, which it must not keep. Only if `take` returns false, the line is decoded and
   * passed to `onLine`.
   */
  filterLines(
    chunk: Uint8Array,
    take: (bytes: Buffer, start: number, end: number) => boolean,
    onLine: (line: string | InvalidLine) => void,
  ): void {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    let start = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, start);
      if (end === -1) break;
      if (this.#length > 0 || end - start > this.#maxBytes || !this.#begun) {
        this.#keep(bytes.subarray(start, end));
        if (this.#length <= this.#maxBytes && this.#begun && take(this.#rest, 0, this.#length))
          this.#length = 0;
        else this.#takeEach(onLine);
      } else if (!take(bytes, start, end)) {
        this.#keep(bytes.subarray(start, end));
        this.#takeEach(onLine);
      }
      start = end + 1;
    }
    if (start < bytes.length) this.#keep(bytes.subarray(start));
  }

  /** Returns the text after the last newline. Call it when the stream has ended. */
  flush(): (string | InvalidLine)[] {
    const out: (string | InvalidLine)[] = [];
    if (this.#length > 0) this.#take(out);
    return out;
  }

  #keep(part: Buffer): void {
    const length = this.#length + part.length;
    // Of a line that exceeds the limit only the ends are kept, for the error.
    if (length > this.#maxBytes)
      this.#tail = Buffer.concat([this.#tail, part.subarray(-TAIL)]).subarray(-TAIL);
    const kept = Math.min(length, length > this.#maxBytes ? EXCERPT : this.#maxBytes);
    if (kept > this.#rest.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(kept, this.#rest.length * 2, 1024));
      this.#rest.copy(grown, 0, 0, this.#length);
      this.#rest = grown;
    }
    if (this.#length < kept) part.copy(this.#rest, this.#length, 0, kept - this.#length);
    this.#length = length;
  }

  #takeEach(onLine: (line: string | InvalidLine) => void): void {
    const out: (string | InvalidLine)[] = [];
    this.#take(out);
    for (const line of out) onLine(line);
  }

  #take(out: (string | InvalidLine)[]): void {
    const length = this.#length;
    this.#length = 0;
    if (length > this.#maxBytes) {
      this.#begun = true;
      const message = `line exceeds maxBytes (${this.#maxBytes}): ${length} bytes; increase maxBytes to accept it`;
      const text = this.#rest.toString('utf8', 0, Math.min(length, EXCERPT, this.#rest.length));
      const end = this.#tail.toString('utf8');
      this.#tail = Buffer.alloc(0);
      out.push(new InvalidLine(new DuolaneError('too_large', message), text, end));
    } else {
      this.#emit(out, this.#rest.toString('utf8', 0, length));
    }
    if (this.#rest.length > MIB) this.#rest = Buffer.alloc(0);
  }

  #emit(out: (string | InvalidLine)[], line: string): void {
    let text = line;
    if (!this.#begun) {
      this.#begun = true;
      if (text.charCodeAt(0) === BOM) text = text.slice(1);
    }
    if (text.charCodeAt(text.length - 1) === CR) text = text.slice(0, -1);
    if (text.charCodeAt(0) > SPACE || text.trim() !== '') out.push(text);
  }
}

/**
 * Decodes bytes, in chunks of any size, to the JSON objects of their lines, by the rules of
 * `LineDecoder`. Objects are returned unchanged, including unknown types and members. Every other
 * line becomes an `InvalidLine` and does not affect the lines around it.
 *
 * @example
 * ```ts
 * const decoder = new JsonlDecoder();
 * for await (const chunk of child.stdout) for (const item of decoder.decode(chunk)) handle(item);
 * for (const item of decoder.flush()) handle(item);
 * ```
 */
export class JsonlDecoder {
  readonly #lines: LineDecoder;

  constructor(options?: LineOptions) {
    this.#lines = new LineDecoder(options);
  }

  /** Returns the objects and invalid lines that the chunk completes. */
  decode(chunk: Uint8Array): (JsonObject | InvalidLine)[] {
    return this.#lines.decode(chunk).map(parsed);
  }

  /** Returns the object after the last newline. Call it when the stream has ended. */
  flush(): (JsonObject | InvalidLine)[] {
    return this.#lines.flush().map(parsed);
  }
}

const parsed = (line: string | InvalidLine): JsonObject | InvalidLine =>
  typeof line === 'string' ? parseLine(line) : line;

/** Parses one line to an object, or to an `InvalidLine` with the reason why it is not an object. */
export function parseLine(text: string): JsonObject | InvalidLine {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
    return invalidLine('line is JSON but not an object', text);
  } catch (cause) {
    return invalidLine('line is not JSON', text, cause);
  }
}

function invalidLine(message: string, text: string, cause?: unknown): InvalidLine {
  // Copy through bytes: a slice of a string keeps the complete string of the chunk in memory.
  const excerpt = Buffer.from(text.slice(0, EXCERPT)).toString();
  return new InvalidLine(new DuolaneError('malformed', message, { cause }), excerpt);
}

/**
 * Encodes one JSON object as one line. JSON.stringify never emits a raw newline.
 *
 * @example
 * ```ts
 * stdin.write(encodeLine({ type: 'user', message: { role: 'user', content: 'hello' } }));
 * ```
 */
export const encodeLine = (message: JsonObject): string => `${JSON.stringify(message)}\n`;
