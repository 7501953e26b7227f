import { DuolaneError } from '../errors.ts';
import { InvalidLine } from './jsonl.ts';

/** One event of a text/event-stream. `data` is the text between the framing, joined by newlines. */
export interface SseEvent {
  readonly id?: string;
  readonly event?: string;
  readonly data: string;
  /** How long a client waits before it comes back, in ms. */
  readonly retry?: number;
}

/** One event as a client gets it: with its defaults, and with the last id of the stream so far. */
export interface SseMessage {
  readonly event: string;
  readonly data: string;
  readonly lastEventId: string;
}

const LF = 0x0a;

/**
 * One event as text, blank line included. JSON has no raw newline, so it is one `data` line.
 * Throws `invalid` for what the format cannot say: a newline in `event` or `id`, NUL in `id`, a
 * `retry` that is not a whole number.
 */
export function encodeSse({ id, event, data, retry }: SseEvent): string {
  let head = '';
  if (event !== undefined) head += `event: ${plain('event', event)}\n`;
  if (id !== undefined) head += `id: ${plain('id', id)}\n`;
  if (retry !== undefined) {
    if (!/^\d+$/.test(String(retry))) throw invalidField('retry', 'is not a whole number of ms');
    head += `retry: ${retry}\n`;
  }
  const body =
    data.includes('\n') || data.includes('\r') ? data.replace(/\r\n?|\n/g, '\ndata: ') : data;
  return `${head}data: ${body}\n\n`;
}

function plain(field: string, value: string): string {
  if (/[\r\n]/.test(value)) throw invalidField(field, 'has a newline');
  if (field === 'id' && value.includes('\0')) throw invalidField(field, 'has a NUL');
  return value;
}

const invalidField = (field: string, why: string): DuolaneError =>
  new DuolaneError('invalid', `the ${field} of a server-sent event ${why}; leave that out`);

/**
 * Bytes of a text/event-stream, cut anywhere, to its events, by the rules of the WHATWG standard.
 * No I/O: feed it, take what it returns. Comments are dropped, and so is an event without its blank
 * line when the stream ends. An event over `maxBytes` (64 MiB by default) comes out as `InvalidLine` with
 * `too_large`, and the stream goes on behind it. Time is linear in the bytes.
 */
export class SseDecoder {
  readonly #maxBytes: number;
  readonly #utf8 = new TextDecoder(); // drops a byte order mark at the beginning
  #rest = ''; // the beginning of a line that is not yet complete
  #bytes = 0; // of the event so far, its unfinished line included
  #skips = false; // the event is over the limit
  #afterCr = false;
  #data: string | undefined;
  #event = '';
  #id = '';
  #lastEventId = '';
  #retryMs: number | undefined;

  constructor({ maxBytes = 64 * 1024 * 1024 }: { readonly maxBytes?: number } = {}) {
    this.#maxBytes = maxBytes;
  }

  /** What a client sends as `Last-Event-ID` when it comes back. */
  get lastEventId(): string {
    return this.#lastEventId;
  }

  /** How long the server wants a client to wait before it comes back, once it has said so. */
  get retryMs(): number | undefined {
    return this.#retryMs;
  }

  /** Whether the event that is being read is over the limit, before it has ended, if it ever does. */
  get oversized(): boolean {
    return this.#skips;
  }

  decode(chunk: Uint8Array): (SseMessage | InvalidLine)[] {
    const out: (SseMessage | InvalidLine)[] = [];
    const lines = this.#normal(this.#utf8.decode(chunk, { stream: true })).split('\n');
    const rest = lines.pop() ?? '';
    for (const line of lines) {
      this.#grow(line);
      const whole = this.#rest + line;
      this.#rest = '';
      if (whole === '') this.#dispatch(out);
      else if (!this.#skips) this.#field(whole);
    }
    this.#grow(rest);
    // Of a line that is skipped only one thing is still of interest: that it is not empty.
    this.#rest = this.#skips && (rest || this.#rest) ? ':' : this.#rest + rest;
    return out;
  }

  /** CRLF and CR as LF, also where a chunk ends between the two. */
  #normal(text: string): string {
    if (text === '') return text;
    const rest = this.#afterCr && text.charCodeAt(0) === LF ? text.slice(1) : text;
    this.#afterCr = text.endsWith('\r');
    return rest.includes('\r') ? rest.replace(/\r\n?/g, '\n') : rest;
  }

  #grow(part: string): void {
    this.#bytes += Buffer.byteLength(part);
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
    this.#bytes -= Buffer.byteLength(line); // not kept, or the last one only
  }

  #dispatch(out: (SseMessage | InvalidLine)[]): void {
    const [data, event] = [this.#data, this.#event];
    this.#lastEventId = this.#id;
    if (this.#skips) {
      const message = `an event of ${this.#bytes} bytes is over the limit of ${this.#maxBytes}; raise maxBytes if it is meant`;
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
