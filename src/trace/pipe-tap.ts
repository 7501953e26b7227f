import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { isControl } from '../wire/control-peer.ts';
import { JsonlDecoder, InvalidLine } from '../wire/jsonl.ts';

/**
 * Decodes the bytes of a stream-json pipe, in chunks of any size, to frames. It changes nothing and
 * keeps at most one line (64 MiB) per direction. Lines that are not JSON objects, the end of a
 * direction and the exit become messages of the host, marked by `host: true`.
 */
export class PipeTap {
  readonly #decoders = { in: new JsonlDecoder(), out: new JsonlDecoder() };
  readonly #onFrame: (frame: Frame) => void;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  /** Processes a chunk of one direction. */
  bytes(direction: Frame['direction'], chunk: Uint8Array): void {
    this.#take(direction, this.#decoders[direction].decode(chunk));
  }

  /** Reports that the host closed the CLI's stdin (`out`), or the CLI its stdout (`in`). */
  ended(direction: Frame['direction']): void {
    this.#take(direction, this.#decoders[direction].flush());
    this.#emit(direction, direction === 'out' ? 'input_ended' : 'output_ended', {});
  }

  /** Reports the exit of the CLI. */
  exited(code: number | null, signal?: string): void {
    this.#emit('in', 'exited', { code, ...(signal !== undefined && { signal }) });
  }

  #take(direction: Frame['direction'], found: readonly (JsonObject | InvalidLine)[]): void {
    for (const data of found) {
      if (data instanceof InvalidLine) {
        this.#emit(direction, 'noise', { text: data.text, reason: data.error.message });
        continue;
      }
      const lane = isControl(data) ? 'control' : 'message';
      this.#onFrame({ lane, direction, at: Date.now(), data });
    }
  }

  #emit(direction: Frame['direction'], subtype: string, fields: JsonObject): void {
    const data = { type: 'system', subtype, host: true, ...fields };
    this.#onFrame({ lane: 'message', direction, at: Date.now(), data });
  }
}
