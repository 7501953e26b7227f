const BEGINNINGS = ['assistant', 'user', 'stream_event'].map((type) =>
  Buffer.from(`{"type":"${type}",`),
);
/**
 * Texts that only lines have which the session itself must read. Inside a string they are false
 * positives.
 */
const MARKS = ['"tool_', '"control_'].map((text) => Buffer.from(text));
const BRACE = 0x7d;

/**
 * Decides from the bytes of a line whether it is for the reader only: a message that no tool call,
 * turn or state of the session depends on. In doubt it returns false. If it is called for the lines
 * of a chunk in order, it reads each byte once and allocates nothing.
 */
export class SkimFilter {
  readonly #next = MARKS.map(() => -1); // the next position of each mark
  #bytes: Buffer | undefined;
  #asked = 0;

  has(bytes: Buffer, start: number, end: number): boolean {
    if (bytes !== this.#bytes || start < this.#asked) this.#next.fill(-1);
    this.#bytes = bytes;
    this.#asked = end;
    return bytes[end - 1] === BRACE && begins(bytes, start, end) && !this.#marked(start, end);
  }

  /** Drops the chunk, whose memory the caller reuses. */
  clear(): void {
    this.#bytes = undefined;
  }

  #marked(start: number, end: number): boolean {
    const bytes = this.#bytes as Buffer;
    for (let n = 0; n < MARKS.length; n++) {
      if ((this.#next[n] as number) < start) {
        const found = bytes.indexOf(MARKS[n] as Buffer, start);
        this.#next[n] = found === -1 ? bytes.length : found;
      }
      if ((this.#next[n] as number) < end) return true;
    }
    return false;
  }
}

function begins(bytes: Buffer, start: number, end: number): boolean {
  for (let n = 0; n < BEGINNINGS.length; n++)
    if (beginsWith(BEGINNINGS[n] as Buffer, bytes, start, end)) return true;
  return false;
}

function beginsWith(beginning: Buffer, bytes: Buffer, start: number, end: number): boolean {
  if (end - start < beginning.length) return false;
  for (let n = 0; n < beginning.length; n++) if (bytes[start + n] !== beginning[n]) return false;
  return true;
}
