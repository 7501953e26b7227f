const BEGINNINGS = ['assistant', 'user', 'stream_event'].map((type) =>
  Buffer.from(`{"type":"${type}",`),
);
/** Where one of these stands, quoted or not, the session may have to look as well. */
const MARKS = ['"tool_', '"control_'].map((text) => Buffer.from(text));
const BRACE = 0x7d;

/**
 * Tells from the bytes of a line whether it is for the reader alone: a message that no tool call, no
 * turn and no state of the session depends on. When in doubt it is not. Asked for the lines of a
 * chunk in order, it looks at each byte once, and leaves nothing to collect.
 */
export class SkimFilter {
  readonly #next = MARKS.map(() => -1); // where each mark stands next
  #bytes: Buffer | undefined;
  #asked = 0;

  has(bytes: Buffer, start: number, end: number): boolean {
    if (bytes !== this.#bytes || start < this.#asked) this.#next.fill(-1);
    this.#bytes = bytes;
    this.#asked = end;
    return bytes[end - 1] === BRACE && begins(bytes, start, end) && !this.#marked(start, end);
  }

  /** Forgets the chunk, which is not ours to keep. */
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
