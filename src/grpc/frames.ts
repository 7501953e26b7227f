import { DuolaneError } from '../errors.ts';

/** A byte that says whether the message is compressed, and its length in four. */
const HEADER_BYTES = 5;

/** One message as it goes on the wire. */
export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, HEADER_BYTES);
  return frame;
}

/**
 * Messages out of bytes that come cut anywhere. Throws `too_large` at the header of a message that
 * is longer than `maxBytes`, before any of it is kept, and `unsupported` for a compressed one, since
 * we offer no compression. A message may share memory with the chunk it came in.
 */
export class FrameDecoder {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** Bytes that must be there before anything can be done: a header, or a header and its message. */
  #wanted = HEADER_BYTES;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether a message has begun and not ended. */
  get partial(): boolean {
    return this.#bytes > 0;
  }

  decode(chunk: Uint8Array): Uint8Array[] {
    const messages: Uint8Array[] = [];
    if (this.#bytes + chunk.length < this.#wanted) {
      this.#keep(chunk);
      return messages;
    }
    const bytes = this.#join(chunk);
    let at = 0;
    while (bytes.length - at >= HEADER_BYTES) {
      const end = at + HEADER_BYTES + this.#lengthAt(bytes, at);
      if (end > bytes.length) {
        this.#wanted = end - at;
        break;
      }
      messages.push(bytes.subarray(at + HEADER_BYTES, end));
      at = end;
    }
    if (bytes.length - at < HEADER_BYTES) this.#wanted = HEADER_BYTES;
    if (at < bytes.length) this.#keep(bytes.subarray(at));
    return messages;
  }

  #keep(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
  }

  #join(chunk: Uint8Array): Uint8Array {
    if (this.#parts.length === 0) return chunk;
    const bytes = Buffer.concat([...this.#parts, chunk]);
    this.#parts = [];
    this.#bytes = 0;
    return bytes;
  }

  #lengthAt(bytes: Uint8Array, at: number): number {
    if (bytes[at] !== 0)
      throw new DuolaneError(
        'unsupported',
        'the peer sent a compressed message; turn compression off, we offer none',
      );
    const length =
      bytes[at + 1]! * 0x1000000 + (bytes[at + 2]! << 16) + (bytes[at + 3]! << 8) + bytes[at + 4]!;
    if (length > this.#maxBytes)
      throw new DuolaneError(
        'too_large',
        `a gRPC message of ${length} bytes is over the limit of ${this.#maxBytes}; raise maxMessageBytes`,
      );
    return length;
  }
}
