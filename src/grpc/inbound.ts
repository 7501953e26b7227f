import type { Readable } from 'node:stream';
import { DuolaneError, malformed } from '../errors.ts';
import { Fifo } from '../stream/fifo.ts';
import { DONE, QueueReader, secondReaderError, type QueueSource } from '../stream/queue-reader.ts';
import { type Receiving, receivingTooMuch } from '../http/received-bytes.ts';
import { FrameDecoder } from './frames.ts';

/**
 * The messages that arrive on one HTTP/2 stream, pulled by one reader. The stream is read only
 * while the reader has taken all messages so far: behind a slow reader the window of the peer
 * fills, and the peer waits. Messages that arrived before a failure are delivered before it is
 * thrown.
 */
export class Inbound implements AsyncIterable<Uint8Array> {
  readonly #stream: Readable;
  readonly #decoder: FrameDecoder;
  readonly #messages = new Fifo<Uint8Array>();
  readonly #source: QueueSource<Uint8Array> = {
    take: () => this.#take(),
    cancel: () => this.#cancel(),
  };
  #reader: QueueReader<Uint8Array> | undefined;
  readonly #messageMs: number | undefined;
  readonly #receiving: Receiving | undefined;
  #paused = false;
  #late: NodeJS.Timeout | undefined;
  #end: { readonly error?: unknown } | undefined;

  /**
   * With `messageMs`, a message that is incomplete that long after its first byte is a `timeout`.
   * `receiving` counts the bytes of an incomplete message.
   */
  constructor(
    stream: Readable,
    maxMessageBytes: number,
    messageMs?: number,
    receiving?: Receiving,
  ) {
    this.#stream = stream;
    this.#decoder = new FrameDecoder(maxMessageBytes);
    this.#messageMs = messageMs;
    this.#receiving = receiving;
    stream.on('data', (chunk: Uint8Array) => this.#data(chunk));
    if (messageMs !== undefined) stream.once('close', () => clearTimeout(this.#late));
  }

  [Symbol.asyncIterator](): QueueReader<Uint8Array> {
    if (this.#reader) throw secondReaderError('gRPC stream');
    this.#reader = new QueueReader(this.#source);
    return this.#reader;
  }

  /** Ends the stream. An incomplete message at the end is `malformed`. */
  finish(): void {
    this.#finish(
      this.#decoder.partial
        ? { error: malformed('the peer ended a gRPC stream within a message') }
        : {},
    );
  }

  fail(error: unknown): void {
    this.#finish({ error });
  }

  /** Like `fail`, but drops waiting messages. */
  abort(error: unknown): void {
    this.#messages.clear();
    this.#end = { error };
    clearTimeout(this.#late);
    this.#reader?.wake();
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end;
    clearTimeout(this.#late);
    this.#reader?.wake();
  }

  #data(chunk: Uint8Array): void {
    if (this.#end) return;
    try {
      for (const message of this.#decoder.decode(chunk)) this.#messages.push(message);
      if (this.#receiving?.hold(this.#decoder.bytes) === false) throw receivingTooMuch();
    } catch (error) {
      this.fail(error);
      return;
    }
    this.#reader?.wake();
    if (this.#messages.length > 0) {
      this.#paused = true;
      this.#stream.pause();
    }
    this.#watch();
  }

  // The time of a message stops while the stream is paused, because the peer cannot send the rest.
  #watch(): void {
    if (this.#messageMs === undefined || this.#end) return;
    if (this.#paused || !this.#decoder.partial) {
      clearTimeout(this.#late);
      this.#late = undefined;
    } else
      this.#late ??= setTimeout(() => this.fail(messageTimeout(this.#messageMs)), this.#messageMs);
  }

  #take(): IteratorResult<Uint8Array, void> | undefined {
    if (this.#messages.length > 0) {
      const value = this.#messages.shift()!;
      if (this.#messages.length === 0) this.#resume();
      return { done: false, value };
    }
    if (!this.#end) return undefined;
    if (!('error' in this.#end)) return DONE;
    const { error } = this.#end;
    this.#end = {};
    throw error;
  }

  #resume(): void {
    if (!this.#paused || this.#end) return;
    this.#paused = false;
    this.#stream.resume();
    this.#watch();
  }

  #cancel(): void {
    this.#messages.clear();
    this.#end = {};
    this.#reader?.wake();
  }
}

export const messageTimeout = (messageMs: number | undefined): DuolaneError =>
  new DuolaneError('timeout', `a message timed out after ${messageMs} ms: its end was awaited`);

/**
 * Reads the one message of a stream that must have exactly one. Calls back once, with the message
 * or the error.
 */
export function onlyMessage(
  stream: Readable,
  maxMessageBytes: number,
  settle: (message: Uint8Array | undefined, error?: unknown) => void,
  receiving?: Receiving,
): void {
  const decoder = new FrameDecoder(maxMessageBytes);
  let only: Uint8Array | undefined;
  let failed = false;
  const fail = (error: unknown): void => {
    if (!failed) settle(undefined, error);
    failed = true;
  };
  stream.on('data', (chunk: Uint8Array) => {
    if (failed) return;
    try {
      for (const message of decoder.decode(chunk)) {
        if (only)
          return fail(malformed('the peer sent several messages in a unary call: expected one'));
        only = message;
      }
      if (receiving?.hold(decoder.bytes) === false) fail(receivingTooMuch());
    } catch (error) {
      fail(error);
    }
  });
  stream.on('end', () => {
    if (failed) return;
    if (decoder.partial) fail(malformed('the peer ended a gRPC stream within a message'));
    else settle(only);
    // The listeners stay as long as the call, which may take long.
    only = undefined;
  });
}
