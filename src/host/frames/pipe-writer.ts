import { DuolaneError, errorMessage } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Transport } from '../../process/types.ts';
import { encodeLine } from '../../wire/jsonl.ts';

export interface WriterOptions {
  /** Called with each frame that was written to the pipe. */
  readonly onWritten: (frame: JsonObject) => void;
  /** Called with the frames that could not be written, because the CLI no longer reads. */
  readonly onLost: (frames: readonly JsonObject[], reason: DuolaneError) => void;
  /** Called when stdin was closed. */
  readonly onEnded: () => void;
}

function lineOf(frame: JsonObject): string {
  try {
    return encodeLine(frame);
  } catch (cause) {
    const why = errorMessage(cause).split('\n', 1)[0];
    throw new DuolaneError('invalid', `it has no JSON form: ${why}`, { cause });
  }
}

/**
 * The only writer of stdin. Frames that are pushed in the same tick are written together, in
 * `process.nextTick`: parallel responses share a system call, and no turn of the event loop is
 * added.
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

  /** Whether stdin is closed. It is the one flag for this fact. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Queues a frame. Throws `invalid` for a frame without a JSON form, which is then not queued. */
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

  /**
   * Writes the queued frames and resolves when the pipe has room for more; rejects with `closed`.
   */
  async room(): Promise<void> {
    this.flush();
    if (this.#broken) throw this.#broken;
    if (this.#room) return;
    await this.#transport.drained();
    this.#room = true;
  }

  /** Writes the queued frames, then closes stdin. */
  end(): void {
    if (this.#ended) return;
    this.flush();
    this.#ended = true;
    try {
      this.#transport.endInput();
    } catch (error) {
      // The CLI does not get the end of its input; the session ends it after `exitMs`.
      this.#broken ??= DuolaneError.from(error, 'closed');
    }
    this.#options.onEnded();
  }
}
