import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Transport } from '../../process/types.ts';
import { encodeLine } from '../../wire/jsonl.ts';

export interface WriterOptions {
  /** The frame is on its way to the peer. */
  readonly onWritten: (frame: JsonObject) => void;
  /** The peer no longer reads: these frames reached nobody. */
  readonly onLost: (frames: readonly JsonObject[], reason: DuolaneError) => void;
  /** Nothing more is written: stdin is closed. */
  readonly onEnded: () => void;
}

function lineOf(frame: JsonObject): string {
  try {
    return encodeLine(frame);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.split('\n', 1)[0] : String(cause);
    throw new DuolaneError('invalid', `it has no JSON form: ${why}`, { cause });
  }
}

/**
 * The one way to stdin. Frames pushed in one go leave as one write, once all the promises that are
 * ready have run: no turn of the event loop is added, and parallel answers share a system call.
 */
export class PipeWriter {
  readonly #transport: Transport;
  readonly #options: WriterOptions;
  #frames: JsonObject[] = [];
  #text = '';
  #room = true;
  #ended = false;
  #broken: DuolaneError | undefined;

  constructor(transport: Transport, options: WriterOptions) {
    this.#transport = transport;
    this.#options = options;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Throws `invalid` for a frame that has no JSON form, and has not taken it. */
  push(frame: JsonObject): void {
    const text = lineOf(frame);
    if (this.#frames.length === 0) process.nextTick(() => this.flush());
    this.#frames.push(frame);
    this.#text += text;
  }

  flush(): void {
    if (this.#frames.length === 0) return;
    const frames = this.#frames;
    const text = this.#text;
    this.#frames = [];
    this.#text = '';
    try {
      if (this.#ended) throw new DuolaneError('closed', 'stdin of the agent was closed');
      this.#room = this.#transport.write(text, (reason) => this.#lose(frames, reason));
    } catch (error) {
      return this.#lose(frames, error);
    }
    for (const frame of frames) this.#options.onWritten(frame);
  }

  #lose(frames: readonly JsonObject[], reason: unknown): void {
    this.#broken ??= DuolaneError.from(reason, 'closed');
    this.#options.onLost(frames, this.#broken);
  }

  /** Writes what waits and resolves when there is room for more; rejects with `closed`. */
  async room(): Promise<void> {
    this.flush();
    if (this.#broken) throw this.#broken;
    if (this.#room) return;
    await this.#transport.drained();
    this.#room = true;
  }

  /** Writes what waits, then the end of file. */
  end(): void {
    if (this.#ended) return;
    this.flush();
    this.#ended = true;
    try {
      this.#transport.endInput();
    } catch (error) {
      // The peer does not see the end of its input; the session ends it after `exitMs`.
      this.#broken ??= DuolaneError.from(error, 'closed');
    }
    this.#options.onEnded();
  }
}
