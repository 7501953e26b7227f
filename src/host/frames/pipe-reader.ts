import type { JsonObject } from '../../json.ts';
import { isControl } from '../../wire/control-peer.ts';
import { LineDecoder, InvalidLine, parseLine } from '../../wire/jsonl.ts';
import type { FrameQueue } from './frame-queue.ts';
import { SkimFilter } from './skim-filter.ts';

export interface ReaderOptions {
  readonly lanes: Pick<FrameQueue, 'behind' | 'control' | 'noise' | 'skim'>;
  readonly maxLineBytes?: number | undefined;
  /** Called with a control frame as soon as it is parsed. */
  readonly onControl: (frame: JsonObject) => void;
  /** Called with any other frame and its line. */
  readonly onMessage: (frame: JsonObject, line: string, at: number) => void;
}

/**
 * Turns the bytes of the CLI, split anywhere, into frames on their lanes, in order. A control frame
 * is dispatched before it is queued, so that no reader delays a tool call. An invalid line is
 * reported, and reading continues.
 */
export class PipeReader {
  /**
   * Set when the session id is known: from then on, messages for the app only need not be parsed.
   */
  maySkim = false;
  readonly #options: ReaderOptions;
  readonly #decoder: LineDecoder;
  readonly #skimFilter = new SkimFilter();
  #at = 0;

  constructor(options: ReaderOptions) {
    const { maxLineBytes } = options;
    this.#options = options;
    this.#decoder = new LineDecoder(maxLineBytes === undefined ? {} : { maxBytes: maxLineBytes });
  }

  /** Reads a chunk. True: no part of it is kept, so its memory may be reused immediately. */
  read(chunk: Uint8Array, at: number): boolean {
    this.#at = at;
    if (this.maySkim && this.#options.lanes.behind) {
      // The app is far behind: lines for it only go to the queue without being parsed.
      this.#decoder.filterLines(chunk, this.#pass, this.#receive);
      this.#skimFilter.clear();
      return true;
    }
    for (const line of this.#decoder.decode(chunk)) this.#receive(line);
    return false;
  }

  /** Reads the last line, which may have no line end. */
  end(): void {
    for (const line of this.#decoder.flush()) this.#receive(line);
  }

  readonly #pass = (bytes: Buffer, start: number, end: number): boolean =>
    this.#skimFilter.has(bytes, start, end) &&
    this.#options.lanes.skim(bytes, start, end, this.#at);

  readonly #receive = (line: string | InvalidLine): void => {
    const { lanes, onControl, onMessage } = this.#options;
    const data = typeof line === 'string' ? parseLine(line) : line;
    if (data instanceof InvalidLine) {
      lanes.noise(data);
    } else if (isControl(data)) {
      onControl(data); // dispatch before observation
      lanes.control('in', data, this.#at);
    } else {
      onMessage(data, line as string, this.#at);
    }
  };
}
