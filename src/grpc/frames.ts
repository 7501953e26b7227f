import { unsupported, tooLarge } from '../errors.ts';

/** One byte for the compression flag and four bytes for the length of the message. */
const HEADER_BYTES = 5;

/** Encodes one message with its frame header. */
export function encodeFrame(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, HEADER_BYTES);
  return frame;
}

/**
 * Decodes messages from bytes in chunks of any size. Throws `too_large` at the header of a message
 * longer than `maxBytes`, before any of it is buffered, and `unsupported` for a compressed message,
 * because we offer no compression. A message may share memory with the chunk that it came in.
 */
export class FrameDecoder {
  readonly #maxBytes: number;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** The bytes needed to continue: a header, or a header and its message. */
  #wanted = HEADER_BYTES;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Whether a message has begun and not ended. */
  get partial(): boolean {
    return this.#bytes > 0;
  }

  /** How many bytes of an incomplete message are buffered. */
  get bytes(): number {
    return this.#bytes;
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
      throw unsupported(
        'the peer sent a compressed message: compression is not supported; turn it off',
      );
    const length =
      bytes[at + 1]! * 0x1000000 + (bytes[at + 2]! << 16) + (bytes[at + 3]! << 8) + bytes[at + 4]!;
    if (length > this.#maxBytes)
      throw tooLarge(
        `gRPC message exceeds maxMessageBytes (${this.#maxBytes}): ${length} bytes; increase maxMessageBytes to accept it`,
      );
    return length;
  }
}
