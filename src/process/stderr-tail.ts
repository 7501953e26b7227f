/**
 * Keeps the last `limitBytes` of the pushed bytes, as text. Time is linear in the input, and memory
 * is at most twice the limit.
 */
export class StderrTail {
  readonly #limitBytes: number;
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;
  #cut = false;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  push(chunk: Uint8Array): void {
    const limit = this.#limitBytes;
    if (chunk.length > limit) this.#cut = true;
    const last = chunk.subarray(Math.max(0, chunk.length - limit));
    if (this.#length + last.length > this.#buffer.length) this.#makeRoom(last.length);
    this.#buffer.set(last, this.#length);
    this.#length += last.length;
  }

  toString(): string {
    let from = Math.max(0, this.#length - this.#limitBytes);
    const cut = this.#cut || from > 0;
    // A cut inside a character leaves up to three bytes of it, which are skipped.
    while (cut && from < this.#length && (this.#buffer[from]! & 0xc0) === 0x80) from++;
    return this.#buffer.toString('utf8', from, this.#length);
  }

  #makeRoom(incoming: number): void {
    const keepFrom = Math.max(0, this.#length + incoming - this.#limitBytes);
    if (keepFrom > 0) this.#cut = true;
    const kept = this.#buffer.subarray(Math.min(keepFrom, this.#length), this.#length);
    this.#buffer = Buffer.alloc(Math.min(2 * this.#limitBytes, 2 * (kept.length + incoming)));
    this.#buffer.set(kept);
    this.#length = kept.length;
  }
}
