import { stripControlCharacters } from '../../event/text/control-characters.ts';
import type { JsonObject } from '../../json.ts';
import { waitForWake } from '../../stream/cancellable-generator.ts';
import { encodeLine } from '../../wire/jsonl.ts';

/** The part of a writable stream that `LineOutput` uses. */
export interface Sink {
  /** Whether it is a terminal. */
  readonly isTTY?: boolean;
  write(text: string): boolean;
  once(event: 'drain', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/**
 * The only writer of stdout: complete lines, in the order of the calls. `write` never waits, so
 * that control responses are not delayed; code that writes many lines awaits `drained()` between
 * them. When the reader closes the pipe (EPIPE), `gone` aborts and later writes are dropped.
 */
export class LineOutput {
  readonly #sink: Sink;
  readonly #gone = new AbortController();
  #full = false;

  constructor(sink: Sink) {
    this.#sink = sink;
    sink.on('error', (error) => this.#gone.abort(error));
  }

  /** Aborts when the reader closes the pipe. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  write(message: JsonObject): void {
    this.#put(encodeLine(message));
  }

  /**
   * Writes text for `--output-format text`. A terminal gets no control characters: those of a model
   * could write to the clipboard or hide what it did.
   */
  text(text: string): void {
    this.#put(this.#sink.isTTY ? stripControlCharacters(text) : text);
  }

  #put(text: string): void {
    if (this.#gone.signal.aborted) return;
    this.#full = !this.#sink.write(text);
  }

  /** Resolves when the pipe accepts more, or when its reader closed it. */
  async drained(): Promise<void> {
    if (!this.#full || this.#gone.signal.aborted) return;
    await waitForWake((wake) => {
      this.#sink.once('drain', wake);
      return () => this.#sink.off('drain', wake);
    }, this.#gone.signal);
    this.#full = false;
  }
}
