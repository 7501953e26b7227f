import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { isControl } from '../wire/control-peer.ts';
import { JsonlDecoder, InvalidLine } from '../wire/jsonl.ts';

/**
 * Bytes of a stream-json pipe, cut anywhere, to its frames. It only listens: it changes nothing and
 * keeps at most one line (64 MiB) per direction. Lines that are no JSON objects, the end of a
 * direction and the exit become messages of the host, told apart by `host: true`.
 */
export class PipeTap {
  readonly #decoders = { in: new JsonlDecoder(), out: new JsonlDecoder() };
  readonly #onFrame: (frame: Frame) => void;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  bytes(direction: Frame['direction'], chunk: Uint8Array): void {
    this.#take(direction, this.#decoders[direction].decode(chunk));
  }

  /** The host closed the CLI's stdin (`out`), or the CLI its stdout (`in`). */
  ended(direction: Frame['direction']): void {
    this.#take(direction, this.#decoders[direction].flush());
    this.#say(direction, direction === 'out' ? 'input_ended' : 'output_ended', {});
  }

  exited(code: number | null, signal?: string): void {
    this.#say('in', 'exited', { code, ...(signal !== undefined && { signal }) });
  }

  #take(direction: Frame['direction'], found: readonly (JsonObject | InvalidLine)[]): void {
    for (const data of found) {
      if (data instanceof InvalidLine) {
        this.#say(direction, 'noise', { text: data.text, reason: data.error.message });
        continue;
      }
      const lane = isControl(data) ? 'control' : 'message';
      this.#onFrame({ lane, direction, at: Date.now(), data });
    }
  }

  #say(direction: Frame['direction'], subtype: string, fields: JsonObject): void {
    const data = { type: 'system', subtype, host: true, ...fields };
    this.#onFrame({ lane: 'message', direction, at: Date.now(), data });
  }
}
