import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import { asObject, type JsonObject } from '../../json.ts';
import { OverflowQueue } from '../../stream/overflow-queue.ts';
import { InvalidLine, parseLine } from '../../wire/jsonl.ts';
import { mayEndTurn, hostMessage, type HostMessageSubtype } from './host-messages.ts';
import { type FrameFeed, FrameIterator } from './frame-iterator.ts';

export interface FrameQueueOptions {
  readonly lanes: 'message' | 'both';
  /** The id that host messages carry. */
  readonly sessionId: () => string;
  readonly memoryBytes?: number | undefined;
  readonly diskBytes?: number | undefined;
  /** Called synchronously with every frame of both lanes. */
  readonly taps: readonly ((frame: Frame) => void)[];
  /** Called with the error of a tap that threw. The tap is not called again. */
  readonly onTapError: (error: unknown) => void;
}

/**
 * Holds the bursts of a reader that keeps up. For a reader that is behind, frames are cheaper on
 * disk.
 */
const MEMORY_BYTES = 512 * 1024;
/** How many frames an error report has. */
const REMEMBERED = 20;

const isMessage = ({ lane, direction }: Frame): boolean => lane === 'message' && direction === 'in';

/** A frame, or its encoded text from the disk, which the reader decodes. */
type QueuedFrame = Frame | string;

const invalidLineFields = ({ text, error }: InvalidLine): JsonObject => ({
  text,
  reason: error.message,
});

type Rest = { readonly lost?: true };

/**
 * The frames of the pipe on their way to the reader: a bounded queue that spills to disk, the taps,
 * and the last frames for error reports. Adding a frame never waits for a reader.
 */
export class FrameQueue implements AsyncDisposable {
  readonly #queue: OverflowQueue<QueuedFrame>;
  readonly #reader: AsyncIterator<QueuedFrame, void>;
  readonly #options: FrameQueueOptions;
  readonly #both: boolean;
  readonly #recent: (JsonObject | undefined)[] = Array.from({ length: REMEMBERED });
  #taps: readonly ((frame: Frame) => void)[];
  #count = 0;
  #at = 0;
  #stamp = '';
  #skimmedAt = 0;
  #openedAt = 0;
  // The turn that each turn boundary in the queue ends, oldest first: the reader takes one per
  // boundary.
  readonly #boundaries: number[] = [];
  #passed = 0; // the highest turn whose end the reader has passed
  #served = 0; // the highest turn that was read, skipped or interrupted
  #reading = false;
  readonly #feed: FrameFeed = {
    begin: () => this.#begin(),
    take: () => this.#decoded(this.#queue.take()),
    pull: () => this.#reader.next().then(this.#pulled),
    end: () => void (this.#reading = false),
  };

  constructor(options: FrameQueueOptions) {
    const { lanes, memoryBytes = MEMORY_BYTES, diskBytes, taps } = options;
    this.#options = options;
    this.#both = lanes === 'both';
    this.#taps = taps;
    const decode = (text: string): string => text; // `#decoded` decodes it for the reader
    this.#queue = new OverflowQueue<QueuedFrame>({ encode, decode, memoryBytes, diskBytes });
    this.#reader = this.#queue[Symbol.asyncIterator]();
  }

  /**
   * Adds a message for the app. `turn` comes from `TurnTracker.observe`; `line` saves encoding it
   * again.
   */
  message(data: JsonObject, at: number, turn: number, line?: string): void {
    const frame: Frame = { lane: 'message', direction: 'in', at, data };
    this.#remember(data);
    if (this.#taps.length > 0) this.#tap(frame);
    const text = line === undefined ? undefined : this.#prefix(at) + line;
    const taken = this.#queue.offer(frame, text);
    if (taken && mayEndTurn(data)) this.#boundaries.push(turn);
  }

  /** Adds a message of the host for the app; `turn` is the highest turn that it ends. */
  pushHostMessage(subtype: HostMessageSubtype, fields: JsonObject, turn = 0): void {
    this.message(this.#hostMessage(subtype, fields), Date.now(), turn);
  }

  /** Reports an event of the pipe itself to the taps only. */
  note(direction: Frame['direction'], subtype: HostMessageSubtype, fields: JsonObject = {}): void {
    if (this.#taps.length === 0) return;
    const data = hostMessage(subtype, fields);
    this.#tap({ lane: 'message', direction, at: Date.now(), data });
  }

  /** Reports an invalid line to the app. */
  noise(line: InvalidLine): void {
    this.pushHostMessage('noise', invalidLineFields(line));
  }

  /**
   * Whether lines for the reader only may be skimmed: the reader is far behind, and no tap is set.
   */
  get behind(): boolean {
    return this.#queue.spilling && this.#taps.length === 0;
  }

  /**
   * Writes a line for the reader only to disk without parsing it. While the reader is behind, a
   * flood of messages then costs neither parsing nor garbage collection. Returns false if the line
   * must be parsed.
   */
  skim(bytes: Buffer, start: number, end: number, at: number): boolean {
    if (!this.behind) return false;
    if (at !== this.#skimmedAt) {
      this.#skimmedAt = at;
      this.#queue.offer(`@${at}`);
    }
    return this.#queue.offerBytes(bytes, start, end);
  }

  /** Reports a message for the host to the taps; the app never gets it. */
  internal(data: JsonObject, at: number): void {
    this.#remember(data);
    if (this.#taps.length > 0) this.#tap({ lane: 'message', direction: 'in', at, data });
  }

  /** Adds a user message that was written. */
  sent(data: JsonObject, at: number): void {
    this.#remember(data);
    this.#observe('message', 'out', data, at);
  }

  /** Adds a control frame that was read or written. */
  control(direction: 'in' | 'out', data: JsonObject, at: number, rest?: Rest): void {
    this.#remember(data);
    this.#observe('control', direction, data, at, rest);
  }

  /** Adds a response that could not be written, and reports it to the app. */
  lostResponse(frame: JsonObject, reason: string, request?: JsonObject): void {
    this.control('out', frame, Date.now(), { lost: true });
    const { request_id } = asObject(frame['response']);
    this.pushHostMessage('tool_response_lost', {
      request_id,
      reason,
      ...(request && { request }),
    });
  }

  /** Ends the queue. The reader gets the error after the last frame. */
  end(error?: DuolaneError): void {
    if (error) this.#queue.fail(error);
    else this.#queue.close();
  }

  /** Skips the turns up to this one: no later `response()` yields them. */
  skipTurn(turn: number): void {
    this.#served = Math.max(this.#served, turn);
  }

  /** The last frames, oldest first. */
  get recent(): readonly JsonObject[] {
    const from = this.#count % REMEMBERED;
    return [...this.#recent.slice(from), ...this.#recent.slice(0, from)].filter(
      (frame) => frame !== undefined,
    );
  }

  frames(): FrameIterator<Frame> {
    return this.#iterate((frame) => frame);
  }

  messages(): FrameIterator<JsonObject> {
    return this.#iterate((frame) => (isMessage(frame) ? frame.data : undefined));
  }

  /** The messages that `select` maps to a value. */
  selectMessages<T>(select: (message: JsonObject) => T | undefined): FrameIterator<T> {
    return this.#iterate((frame) => (isMessage(frame) ? select(frame.data) : undefined));
  }

  response(): FrameIterator<JsonObject> {
    let previous = 0; // the turn before the one to yield, which must end first
    const isLast = (): boolean => this.#passed > previous;
    return new FrameIterator(this.#feed, {
      onBegin: () => void (previous = Math.max(this.#served, this.#passed)),
      select: (frame) => {
        const before = this.#passed;
        this.#pass(frame);
        return isMessage(frame) && (before >= previous || isLast()) ? frame.data : undefined;
      },
      isLast,
      onEnd: () => this.skipTurn(previous + 1),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
  }

  #hostMessage(subtype: HostMessageSubtype, fields: JsonObject): JsonObject {
    return hostMessage(subtype, {
      ...fields,
      uuid: randomUUID(),
      session_id: this.#options.sessionId(),
    });
  }

  /**
   * The frame of an entry; undefined for a time stamp, which applies to the skimmed lines after it.
   */
  #decoded(entry: QueuedFrame | undefined): Frame | undefined {
    if (typeof entry !== 'string') return entry;
    switch (entry[0]) {
      case '@':
        this.#openedAt = Number(entry.slice(1));
        return undefined;
      case '{':
        return { lane: 'message', direction: 'in', at: this.#openedAt, data: this.#parsed(entry) };
      default:
        return decodeFrame(entry);
    }
  }

  /**
   * Parses a skimmed line. If it is not a JSON object, the reader gets a `noise` message instead.
   */
  #parsed(line: string): JsonObject {
    const data = parseLine(line);
    return data instanceof InvalidLine ? this.#hostMessage('noise', invalidLineFields(data)) : data;
  }

  readonly #pulled = (
    result: IteratorResult<QueuedFrame, void>,
  ): IteratorResult<Frame, void> | Promise<IteratorResult<Frame, void>> => {
    if (result.done) return result;
    const value = this.#decoded(result.value);
    return value ? { done: false, value } : this.#feed.pull();
  };

  #begin(): void {
    if (this.#reading)
      throw new DuolaneError(
        'conflict',
        'cannot read: another loop reads this session; use one loop, or onFrame to observe the frames',
      );
    this.#reading = true;
  }

  #iterate<T>(select: (frame: Frame) => T | undefined): FrameIterator<T> {
    return new FrameIterator<T>(this.#feed, {
      select: (frame) => {
        this.#pass(frame);
        return select(frame);
      },
    });
  }

  #pass(frame: Frame): void {
    if (isMessage(frame) && mayEndTurn(frame.data))
      this.#passed = Math.max(this.#passed, this.#boundaries.shift() ?? 0);
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

  /** The prefix of a line on disk. It is the same for all lines of a chunk, so it is kept. */
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
        this.#options.onTapError(error);
      }
    }
  }
}

// The forms of an entry on disk: a skimmed line unchanged; `@` and the time of the skimmed lines
// after it; or a frame: two letters for lane and direction, `!` if lost, the time, a blank, and its
// line.
function encode(entry: QueuedFrame): string {
  if (typeof entry === 'string') return entry;
  const { lane, direction, at, data, lost } = entry;
  return `${lane === 'message' ? 'm' : 'c'}${direction === 'in' ? 'i' : 'o'}${lost ? '!' : ''}${at} ${JSON.stringify(data)}`;
}

function decodeFrame(text: string): Frame {
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
