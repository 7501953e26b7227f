import type { JsonObject } from '../../json.ts';
import { isControl } from '../../wire/control-peer.ts';
import { LineDecoder, InvalidLine, parseLine } from '../../wire/jsonl.ts';
import type { FrameQueue } from './frame-queue.ts';
import { SkimFilter } from './skim-filter.ts';

export interface ReaderOptions {
  readonly lanes: Pick<FrameQueue, 'behind' | 'control' | 'noise' | 'skim'>;
  readonly maxLineBytes?: number | undefined;
  /** A control frame, the moment that it is parsed. */
  readonly onControl: (frame: JsonObject) => void;
  /** Any other frame, with its line. */
  readonly onMessage: (frame: JsonObject, line: string, at: number) => void;
}

/**
 * The message reader: bytes of the CLI, cut anywhere, to frames on their lane, in order. Control
 * frames are dispatched before anybody looks at them; a line that is no frame is told and forgotten.
 */
export class PipeReader {
  /** Set once the session needs to see no more of a message that is the app's alone. */
  maySkim = false;
  readonly #options: ReaderOptions;
  readonly #decoder: LineDecoder;
  readonly #plain = new SkimFilter();
  #at = 0;

  constructor(options: ReaderOptions) {
    const { maxLineBytes } = options;
    this.#options = options;
    this.#decoder = new LineDecoder(maxLineBytes === undefined ? {} : { maxBytes: maxLineBytes });
  }

  /** True: nothing of the chunk is kept, so its memory may be given back at once. */
  read(chunk: Uint8Array, at: number): boolean {
    this.#at = at;
    if (this.maySkim && this.#options.lanes.behind) {
      // The app is far behind: what only it cares about passes by unread.
      this.#decoder.filterLines(chunk, this.#pass, this.#receive);
      this.#plain.clear();
      return true;
    }
    for (const line of this.#decoder.decode(chunk)) this.#receive(line);
    return false;
  }

  /** The last line may lack its end. */
  end(): void {
    for (const line of this.#decoder.flush()) this.#receive(line);
  }

  readonly #pass = (bytes: Buffer, start: number, end: number): boolean =>
    this.#plain.has(bytes, start, end) && this.#options.lanes.skim(bytes, start, end, this.#at);

  readonly #receive = (line: string | InvalidLine): void => {
    const { lanes, onControl, onMessage } = this.#options;
    const data = typeof line === 'string' ? parseLine(line) : line;
    if (data instanceof InvalidLine) {
      lanes.noise(data);
    } else if (isControl(data)) {
      onControl(data); // first the dispatch, then the looking
      lanes.control('in', data, this.#at);
    } else {
      onMessage(data, line as string, this.#at);
    }
  };
}
