import { DuolaneError } from '../errors.ts';
import type { Frame } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { OverflowQueue } from '../stream/overflow.ts';
import { isFence } from './turns.ts';
import { View } from './view.ts';

export interface LaneOptions {
  readonly lanes: 'message' | 'both';
  readonly memoryBytes?: number;
  readonly diskBytes?: number;
  /** Every frame of both lanes, at once. */
  readonly taps: readonly ((frame: Frame) => void)[];
  /** A tap that throws is told once, and not called again. */
  readonly onTapError: (error: unknown) => void;
}

/** How many frames an error shows. */
const REMEMBERED = 20;

const isMessage = ({ lane, direction }: Frame): boolean => lane === 'message' && direction === 'in';

type Rest = { readonly lost?: true };

/**
 * What was said on the pipe, on its way to whoever reads: a bounded queue that spills to disk, the
 * taps, and the last frames for an error report. Frames never wait here for a reader.
 */
export class Lanes implements AsyncDisposable {
  readonly #queue: OverflowQueue<Frame>;
  readonly #reader: AsyncIterator<Frame, void>;
  readonly #both: boolean;
  readonly #recent: (JsonObject | undefined)[] = Array.from({ length: REMEMBERED });
  readonly #onTapError: (error: unknown) => void;
  #taps: readonly ((frame: Frame) => void)[];
  #count = 0;
  #at = 0;
  #stamp = '';
  // The turn that each fence in the queue ends, oldest first: the reader takes one per fence.
  readonly #fences: number[] = [];
  #passed = 0; // the highest turn whose end the reader has seen
  #served = 0; // the highest turn that is nobody's any more: read, given up, or interrupted
  #reading = false;
  readonly #lens = {
    begin: (): void => this.#begin(),
    take: (): Frame | undefined => this.#queue.take(),
    pull: (): Promise<IteratorResult<Frame, void>> => this.#reader.next(),
    isOver: (): boolean => false,
    end: (): void => void (this.#reading = false),
  };

  constructor({ lanes, memoryBytes, diskBytes, taps, onTapError }: LaneOptions) {
    this.#both = lanes === 'both';
    this.#taps = taps;
    this.#onTapError = onTapError;
    this.#queue = new OverflowQueue<Frame>({
      encode,
      decode,
      ...(memoryBytes !== undefined && { memoryBytes }),
      ...(diskBytes !== undefined && { diskBytes }),
    });
    this.#reader = this.#queue[Symbol.asyncIterator]();
  }

  /** A message for the app; `turn` is what `Turns.observe` said. `line` saves encoding it again. */
  message(data: JsonObject, at: number, turn: number, line?: string): void {
    const frame: Frame = { lane: 'message', direction: 'in', at, data };
    this.#remember(data);
    if (this.#taps.length > 0) this.#tap(frame);
    const text = line === undefined ? undefined : this.#prefix(at) + line;
    const taken = this.#queue.offer(frame, text);
    if (taken && isFence(data)) this.#fences.push(turn);
  }

  /** A message that is the host's own business: seen by taps, never by the app. */
  internal(data: JsonObject, at: number): void {
    this.#remember(data);
    if (this.#taps.length > 0) this.#tap({ lane: 'message', direction: 'in', at, data });
  }

  /** A user message that was written. */
  sent(data: JsonObject, at: number): void {
    this.#remember(data);
    this.#observe('message', 'out', data, at);
  }

  control(direction: 'in' | 'out', data: JsonObject, at: number, rest?: Rest): void {
    this.#remember(data);
    this.#observe('control', direction, data, at, rest);
  }

  /** No more frames; with an error the reader gets it behind the last one. */
  end(error?: DuolaneError): void {
    if (error) this.#queue.fail(error);
    else this.#queue.close();
  }

  /** The turns up to this one were interrupted: no later `response()` is about them. */
  giveUp(turn: number): void {
    this.#served = Math.max(this.#served, turn);
  }

  /** The last frames, oldest first. */
  get recent(): readonly JsonObject[] {
    const from = this.#count % REMEMBERED;
    return [...this.#recent.slice(from), ...this.#recent.slice(0, from)].filter(
      (frame) => frame !== undefined,
    );
  }

  frames(): View<Frame> {
    return this.#view((frame) => frame);
  }

  messages(): View<JsonObject> {
    return this.#view((frame) => (isMessage(frame) ? frame.data : undefined));
  }

  response(): View<JsonObject> {
    let floor = 0; // the turn below ours, which has to be over first
    const isOver = (): boolean => this.#passed > floor;
    return new View({
      ...this.#lens,
      begin: () => {
        this.#begin();
        floor = Math.max(this.#served, this.#passed);
      },
      show: (frame) => {
        const before = this.#passed;
        this.#pass(frame);
        return isMessage(frame) && (before >= floor || isOver()) ? frame.data : undefined;
      },
      isOver,
      end: () => {
        this.#reading = false;
        this.giveUp(floor + 1);
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
  }

  #begin(): void {
    if (this.#reading)
      throw new DuolaneError(
        'conflict',
        'another loop reads this session; read in one place, and use onFrame to look on',
      );
    this.#reading = true;
  }

  #view<T>(show: (frame: Frame) => T | undefined): View<T> {
    return new View<T>({
      ...this.#lens,
      show: (frame) => {
        this.#pass(frame);
        return show(frame);
      },
    });
  }

  #pass(frame: Frame): void {
    if (isMessage(frame) && isFence(frame.data))
      this.#passed = Math.max(this.#passed, this.#fences.shift() ?? 0);
  }

  #observe(
    lane: Frame['lane'],
    direction: Frame['direction'],
    data: JsonObject,
    at: number,
    rest?: Rest,
  ): void {
    if (!this.#both && this.#taps.length === 0) return;
    const frame: Frame = { lane, direction, at, data, ...rest };
    if (this.#taps.length > 0) this.#tap(frame);
    if (this.#both) this.#queue.offer(frame);
  }

  /** What stands before a line on disk; the same for all lines of a chunk. */
  #prefix(at: number): string {
    if (at !== this.#at) {
      this.#at = at;
      this.#stamp = `mi${at} `;
    }
    return this.#stamp;
  }

  #remember(data: JsonObject): void {
    this.#recent[this.#count % REMEMBERED] = data;
    this.#count += 1;
  }

  #tap(frame: Frame): void {
    for (const tap of this.#taps) {
      try {
        tap(frame);
      } catch (error) {
        this.#taps = this.#taps.filter((each) => each !== tap);
        this.#onTapError(error);
      }
    }
  }
}

// A frame on disk: two letters, `!` if lost, the time, a blank, and the line as it was.
const encode = ({ lane, direction, at, data, lost }: Frame): string =>
  `${lane === 'message' ? 'm' : 'c'}${direction === 'in' ? 'i' : 'o'}${lost ? '!' : ''}${at} ${JSON.stringify(data)}`;

function decode(text: string): Frame {
  const lost = text[2] === '!';
  const blank = text.indexOf(' ');
  return {
    lane: text[0] === 'm' ? 'message' : 'control',
    direction: text[1] === 'i' ? 'in' : 'out',
    at: Number(text.slice(lost ? 3 : 2, blank)),
    data: JSON.parse(text.slice(blank + 1)) as JsonObject,
    ...(lost && { lost }),
  };
}
