import { DuolaneError } from '../errors.ts';
import { InvalidLine } from './invalid-line.ts';
import { byteLength } from './byte-length.ts';

/**
 * One event of a text/event-stream. `data` is its text without the framing, lines joined by
 * newlines.
 */
export interface SseEvent {
  readonly id?: string;
  readonly event?: string;
  readonly data: string;
  /** How many milliseconds a client waits before it reconnects. */
  readonly retry?: number;
}

/**
 * One event as a client gets it: with the default event name, and with the last id of the stream so
 * far.
 */
export interface SseMessage {
  readonly event: string;
  readonly data: string;
  readonly lastEventId: string;
}

const LF = 0x0a;

/**
 * Encodes one event as text, including the blank line at its end. JSON has no raw newline, so it is
 * one `data` line. Throws `invalid` for values that the format cannot express: a newline in `event`
 * or `id`, NUL in `id`, a `retry` that is not an integer.
 *
 * @example
 * ```ts
 * stream.write(encodeSse({ id: '42', data: JSON.stringify({ text: 'hello' }) }));
 * ```
 */
export function encodeSse({ id, event, data, retry }: SseEvent): string {
  let head = '';
  if (event !== undefined) head += `event: ${checked('event', event)}\n`;
  if (id !== undefined) head += `id: ${checked('id', id)}\n`;
  if (retry !== undefined) {
    if (!/^\d+$/.test(String(retry))) throw invalidField('retry', 'an integer of milliseconds');
    head += `retry: ${retry}\n`;
  }
  const body =
    data.includes('\n') || data.includes('\r') ? data.replace(/\r\n?|\n/g, '\ndata: ') : data;
  return `${head}data: ${body}\n\n`;
}

function checked(field: string, value: string): string {
  if (/[\r\n]/.test(value)) throw invalidField(field, 'text without a newline');
  if (field === 'id' && value.includes('\0')) throw invalidField(field, 'text without NUL');
  return value;
}

const invalidField = (field: string, expected: string): DuolaneError =>
  new DuolaneError('invalid', `invalid ${field} of a server-sent event: expected ${expected}`);

/**
 * Decodes the bytes of a text/event-stream, in chunks of any size, to its events, by the rules of
 * the WHATWG standard. It does no I/O. Comments are dropped, and so is an event without its blank
 * line when the stream ends. An event larger than `maxBytes` (64 MiB by default) becomes an
 * `InvalidLine` with `too_large`, and decoding continues after it. Time is linear in the bytes.
 *
 * @example
 * ```ts
 * const decoder = new SseDecoder();
 * for await (const chunk of response.body ?? [])
 *   for (const event of decoder.decode(chunk)) handle(event);
 * ```
 */
export class SseDecoder {
  readonly #maxBytes: number;
  readonly #utf8 = new TextDecoder(); // drops a byte order mark at the beginning
  #rest = ''; // the beginning of a line that is not yet complete
  #bytes = 0; // of the event so far, including its unfinished line
  #skips = false; // the event exceeds the limit
  #afterCr = false;
  #data: string | undefined;
  #event = '';
  #id = '';
  #lastEventId = '';
  #retryMs: number | undefined;

  constructor({ maxBytes = 64 * 1024 * 1024 }: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes;
  }

  /** The value that a client sends as `Last-Event-ID` when it reconnects. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** How long the server wants a client to wait before it reconnects, if it has sent that. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /**
   * Whether the event that is being read exceeds the limit. True before the event has ended,
   * because it may never end.
   */
  get oversized(): boolean {
    return this.#skips;
  }

  /** Returns the events that the chunk completes. */
  decode(chunk: Uint8Array): (SseMessage | InvalidLine)[] {
    const out: (SseMessage | InvalidLine)[] = [];
    const lines = this.#normal(this.#utf8.decode(chunk, { stream: true })).split('\n');
    const rest = lines.pop() ?? '';
    for (const line of lines) {
      this.#grow(line);
      const complete = this.#rest + line;
      this.#rest = '';
      if (complete === '') this.#dispatch(out);
      else if (!this.#skips) this.#field(complete);
    }
    this.#grow(rest);
    // Of a skipped line only one fact matters: it is not empty, so it does not end the event.
    this.#rest = this.#skips && (rest || this.#rest) ? ':' : this.#rest + rest;
    return out;
  }

  /** Converts CRLF and CR to LF, also if a chunk ends between the two. */
  #normal(text: string): string {
    if (text === '') return text;
    const rest = this.#afterCr && text.charCodeAt(0) === LF ? text.slice(1) : text;
    this.#afterCr = text.endsWith('\r');
    return rest.includes('\r') ? rest.replace(/\r\n?/g, '\n') : rest;
  }

  #grow(part: string): void {
    this.#bytes += byteLength(part);
    if (this.#bytes <= this.#maxBytes) return;
    this.#skips = true;
    this.#data = undefined;
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + (line[colon + 1] === ' ' ? 2 : 1));
    if (name === 'data') {
      this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
      return;
    }
    if (name === 'event') this.#event = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'retry' && /^[0-9]+$/.test(value)) this.#retryMs = Number(value);
    this.#bytes -= byteLength(line); // only data accumulates in memory
  }

  #dispatch(out: (SseMessage | InvalidLine)[]): void {
    const [data, event] = [this.#data, this.#event];
    this.#lastEventId = this.#id;
    if (this.#skips) {
      const message = `event exceeds maxBytes (${this.#maxBytes}): ${this.#bytes} bytes; increase maxBytes to accept it`;
      out.push(new InvalidLine(new DuolaneError('too_large', message), ''));
    } else if (data !== undefined) {
      out.push({ event: event || 'message', data, lastEventId: this.#lastEventId });
    }
    this.#data = undefined;
    this.#event = '';
    this.#bytes = 0;
    this.#skips = false;
  }
}
