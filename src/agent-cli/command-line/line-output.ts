import type { JsonObject } from '../../json.ts';
import { onAbort } from '../../stream/abort.ts';
import { encodeLine } from '../../wire/jsonl.ts';

/** Something to write lines to: stdout, or a list in a test. */
export interface Sink {
  write(text: string): boolean;
  once(event: 'drain', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/**
 * The one way to stdout: whole lines, in the order of the calls. `write` never waits, so control
 * answers always get through; whoever produces much awaits `drained()` between lines. A reader that
 * left (EPIPE) is told once, and what is written after that goes nowhere.
 */
export class LineOutput {
  readonly #sink: Sink;
  readonly #gone = new AbortController();
  #full = false;

  constructor(sink: Sink) {
    this.#sink = sink;
    sink.on('error', (error) => this.#gone.abort(error));
  }

  /** Aborts when nobody reads any more. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  write(message: JsonObject): void {
    this.text(encodeLine(message));
  }

  /** Plain text, for the formats that are no protocol. */
  text(text: string): void {
    if (this.#gone.signal.aborted) return;
    this.#full = !this.#sink.write(text);
  }

  /** Resolves when the pipe has room again, or when nobody reads. */
  async drained(): Promise<void> {
    if (!this.#full || this.#gone.signal.aborted) return;
    await new Promise<void>((resolve) => {
      let unlisten = (): void => {};
      const done = (): void => {
        this.#sink.off('drain', done);
        unlisten();
        resolve();
      };
      this.#sink.once('drain', done);
      unlisten = onAbort(this.#gone.signal, done);
    });
    this.#full = false;
  }
}
