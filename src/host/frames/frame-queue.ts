import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { Frame } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { OverflowQueue } from '../../stream/overflow-queue.ts';
import { InvalidLine, parseLine } from '../../wire/jsonl.ts';
import { mayEndTurn, hostMessage, type HostMessageSubtype } from './host-messages.ts';
import { FrameIterator } from './frame-iterator.ts';

export interface FrameQueueOptions {
  readonly lanes: 'message' | 'both';
  /** The id that host messages carry. */
  readonly sessionId: () => string;
  readonly memoryBytes?: number;
  readonly diskBytes?: number;
  /** Every frame of both lanes, at once. */
  readonly taps: readonly ((frame: Frame) => void)[];
  /** A tap that throws is told once, and not called again. */
  readonly onTapError: (error: unknown) => void;
}

/** Enough for any burst that a reader keeps up with; what is read late is cheaper on disk. */
const MEMORY_BYTES = 512 * 1024;
/** How many frames an error shows. */
const REMEMBERED = 20;

const isMessage = ({ lane, direction }: Frame): boolean => lane === 'message' && direction === 'in';

/** What waits: a frame, or a text as it stands on disk, to be opened by its reader. */
type QueuedFrame = Frame | string;

const wordsOf = ({ text, error }: InvalidLine): JsonObject => ({ text, reason: error.message });

type Rest = { readonly lost?: true };

/**
 * What was said on the pipe, on its way to whoever reads: a bounded queue that spills to disk, the
 * taps, and the last frames for an error report. Frames never wait here for a reader.
 */
export class FrameQueue implements AsyncDisposable {
  readonly #queue: OverflowQueue<QueuedFrame>;
  readonly #reader: AsyncIterator<QueuedFrame, void>;
  readonly #both: boolean;
  readonly #sessionId: () => string;
  readonly #recent: (JsonObject | undefined)[] = Array.from({ length: REMEMBERED });
  readonly #onTapError: (error: unknown) => void;
  #taps: readonly ((frame: Frame) => void)[];
  #count = 0;
  #at = 0;
  #stamp = '';
  #skimmedAt = 0;
  #openedAt = 0;
  // The turn that each fence in the queue ends, oldest first: the reader takes one per fence.
  readonly #fences: number[] = [];
  #passed = 0; // the highest turn whose end the reader has seen
  #served = 0; // the highest turn that is nobody's any more: read, given up, or interrupted
  #reading = false;
  readonly #lens = {
    begin: (): void => this.#begin(),
    take: (): Frame | undefined => this.#opened(this.#queue.take()),
    pull: (): Promise<IteratorResult<Frame, void>> => this.#reader.next().then(this.#pulled),
    isOver: (): boolean => false,
    end: (): void => void (this.#reading = false),
  };

  constructor({ sessionId, memoryBytes = MEMORY_BYTES, ...options }: FrameQueueOptions) {
    const { lanes, diskBytes, taps, onTapError } = options;
    this.#sessionId = sessionId;
    this.#both = lanes === 'both';
    this.#taps = taps;
    this.#onTapError = onTapError;
    this.#queue = new OverflowQueue<QueuedFrame>({
      encode,
      decode: (text) => text,
      memoryBytes,
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
    if (taken && mayEndTurn(data)) this.#fences.push(turn);
  }

  /** A message of our own, for the app; `turn` is the last one that it ends. */
  pushHostMessage(subtype: HostMessageSubtype, fields: JsonObject, turn = 0): void {
    this.message(this.#own(subtype, fields), Date.now(), turn);
  }

  /** A fact about the pipe itself, for taps alone. */
  note(direction: Frame['direction'], subtype: HostMessageSubtype, fields: JsonObject = {}): void {
    if (this.#taps.length === 0) return;
    const data = hostMessage(subtype, fields);
    this.#tap({ lane: 'message', direction, at: Date.now(), data });
  }

  /** Tells of a line that is not protocol. */
  noise(noise: InvalidLine): void {
    this.pushHostMessage('noise', wordsOf(noise));
  }

  /** Whether lines that only the reader cares about may be skimmed: it is far behind, and no tap looks on. */
  get behind(): boolean {
    return this.#queue.spilling && this.#taps.length === 0;
  }

  /**
   * Takes a line that only the reader cares about to disk, unread: while nobody reads, a flood costs
   * neither the parsing nor the garbage of it. False: parse it.
   */
  skim(bytes: Buffer, start: number, end: number, at: number): boolean {
    if (!this.behind) return false;
    if (at !== this.#skimmedAt) {
      this.#skimmedAt = at;
      this.#queue.offer(`@${at}`);
    }
    return this.#queue.offerBytes(bytes, start, end);
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
    return this.#view((frame) => frame);
  }

  messages(): FrameIterator<JsonObject> {
    return this.#view((frame) => (isMessage(frame) ? frame.data : undefined));
  }

  response(): FrameIterator<JsonObject> {
    let floor = 0; // the turn below ours, which has to be over first
    const isOver = (): boolean => this.#passed > floor;
    return new FrameIterator({
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
        this.skipTurn(floor + 1);
      },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
  }

  #own(subtype: HostMessageSubtype, fields: JsonObject): JsonObject {
    return hostMessage(subtype, { ...fields, uuid: randomUUID(), session_id: this.#sessionId() });
  }

  #opened(entry: QueuedFrame | undefined): Frame | undefined {
    if (typeof entry !== 'string') return entry;
    switch (entry[0]) {
      case '@':
        this.#openedAt = Number(entry.slice(1));
        return undefined;
      case '{':
        return { lane: 'message', direction: 'in', at: this.#openedAt, data: this.#parsed(entry) };
      default:
        return decode(entry);
    }
  }

  /** A skimmed line; if it is no JSON after all, its reader is told so in its place. */
  #parsed(line: string): JsonObject {
    const data = parseLine(line);
    return data instanceof InvalidLine ? this.#own('noise', wordsOf(data)) : data;
  }

  readonly #pulled = (
    result: IteratorResult<QueuedFrame, void>,
  ): IteratorResult<Frame, void> | Promise<IteratorResult<Frame, void>> => {
    if (result.done) return result;
    const value = this.#opened(result.value);
    return value ? { done: false, value } : this.#lens.pull();
  };

  #begin(): void {
    if (this.#reading)
      throw new DuolaneError(
        'conflict',
        'another loop reads this session; read in one place, and use onFrame to look on',
      );
    this.#reading = true;
  }

  #view<T>(show: (frame: Frame) => T | undefined): FrameIterator<T> {
    return new FrameIterator<T>({
      ...this.#lens,
      show: (frame) => {
        this.#pass(frame);
        return show(frame);
      },
    });
  }

  #pass(frame: Frame): void {
    if (isMessage(frame) && mayEndTurn(frame.data))
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

// On disk: a skimmed line as it was; `@` and the time that the skimmed lines behind it came at; or a
// frame: two letters, `!` if lost, the time, a blank, and its line.
function encode(entry: QueuedFrame): string {
  if (typeof entry === 'string') return entry;
  const { lane, direction, at, data, lost } = entry;
  return `${lane === 'message' ? 'm' : 'c'}${direction === 'in' ? 'i' : 'o'}${lost ? '!' : ''}${at} ${JSON.stringify(data)}`;
}

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
