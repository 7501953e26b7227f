import { randomUUID } from 'node:crypto';
import { asObject, type JsonObject } from '../../../../json.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import { onAbort } from '../../../../stream/abort.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { isRpcRequest, type RpcRequest } from '../../../../wire/json-rpc.ts';
import type { MessageEndpoint, OfferMessagesOptions, ToolSource } from '../../../types.ts';
import { offerMessages } from '../../server/offer-messages.ts';
import { sendOutgoing } from '../../../relay/serve-endpoint.ts';
import { EarlyCancels } from './early-cancels.ts';
import { ResumableStream } from './resumable-stream.ts';
import { jsonOf, quickAnswer, refuseRequest, streamOf } from './http-responses.ts';

/**
 * The limits of ended streams that are kept for a client that reconnects: their number and bytes.
 */
const MAX_KEPT = 16;
const MAX_KEPT_BYTES = 4 * 2 ** 20;

/** The name of the stream that belongs to no request. */
const OWN = 'own';

/**
 * From this revision on, a stream starts with an event id, so that a client can resume it at any
 * time.
 */
const PRIMED = '2025-11-25';

/** Whose session it is, and what happens to it. */
export interface HttpSessionOptions {
  readonly owner?: string | undefined;
  /** Called when the session keeps another response for its client. */
  readonly onKept?: () => void;
  /** Called when the session has ended, also by the end of the server behind a bridge. */
  readonly onEnd?: (id: string) => void;
}

/**
 * One client of the session protocol. Its requests continue when a connection breaks: what they
 * send is kept, within limits, until the client reconnects or the session ends, which aborts them.
 */
export class HttpSession implements AsyncDisposable {
  readonly id: string = randomUUID();
  readonly owner: string | undefined;
  readonly #end: MessageEndpoint;
  readonly #own = new ResumableStream(OWN);
  readonly #streams = new Map<string, ResumableStream>([[OWN, this.#own]]);
  readonly #early = new EarlyCancels();
  readonly #pumping: Promise<void>;
  readonly #onKept: () => void;
  /** The version that `initialize` agreed on; empty until it has succeeded. */
  version = '';
  #count = 0;
  /** The number of open connections. A request that runs without a connection does not count. */
  #connections = 0;
  /** When the last connection closed, by `performance.now()`. */
  usedAt: number = performance.now();

  constructor(
    source: ToolSource,
    options: OfferMessagesOptions,
    { owner, onKept = () => {}, onEnd }: HttpSessionOptions = {},
  ) {
    this.owner = owner;
    this.#onKept = onKept;
    this.#end = offerMessages(source, options);
    this.#pumping = sendOutgoing(this.#end, (message) => this.#own.push(message)).catch(
      reportUnexpected,
    );
    this.#pumping.then(() => onEnd?.(this.id)).catch(reportUnexpected);
  }

  /** Whether the client has no connection. */
  get idle(): boolean {
    return this.#connections === 0;
  }

  /** The bytes of responses that are kept for a client without a connection. */
  get keptBytes(): number {
    let bytes = 0;
    for (const stream of this.#streams.values()) if (stream.kept) bytes += stream.bytes;
    return bytes;
  }

  /** Drops all responses that are kept. */
  dropKept(): void {
    for (const [name, stream] of this.#streams) if (stream.kept) this.#streams.delete(name);
  }

  /**
   * Handles a POST. The signal aborts when the client disconnects. `onEnd` is called when the
   * message is handled, which may be long after its response.
   */
  async post(
    message: JsonObject,
    signal?: AbortSignal,
    onEnd: () => void = () => {},
  ): Promise<Response> {
    if (isRpcRequest(message) && !this.#early.take(message.id))
      return this.#request(message, signal, onEnd);
    try {
      if (!isRpcRequest(message)) {
        if (message['method'] === 'notifications/cancelled') this.#early.cancel(message);
        await this.#end.receive(message);
        this.usedAt = performance.now();
      }
      return new Response(null, { status: 202 });
    } finally {
      onEnd();
    }
  }

  /**
   * Handles the messages of a batch. Their responses, and what belongs to them, are one stream.
   * `onEnd` is called when all of them are handled.
   */
  async postBatch(
    messages: readonly JsonObject[],
    signal: AbortSignal | undefined,
    onEnd: () => void,
  ): Promise<Response> {
    const name = String((this.#count += 1));
    const stream = new ResumableStream(name);
    const disconnected = this.#connected(signal);
    const answers: Promise<void>[] = [];
    try {
      for (const message of messages)
        if (isRpcRequest(message) && !this.#early.take(message.id))
          answers.push(this.#receive(message, stream).then((one) => one && stream.push(one)));
        else await this.post(message);
    } finally {
      Promise.all(answers)
        .catch(reportUnexpected)
        .finally(() => {
          stream.end();
          onEnd();
          this.#prune();
        })
        .catch(reportUnexpected);
      disconnected();
    }
    if (answers.length === 0) return new Response(null, { status: 202 });
    this.#streams.set(name, stream);
    return this.#stream(stream, 0, signal);
  }

  /**
   * Handles a GET: the server's own messages, or the rest of the stream that the event id names.
   */
  get(lastEventId: string | null, signal?: AbortSignal): Response {
    const [, name = OWN, seq] = /^(.+)_(\d+)$/.exec(lastEventId ?? '') ?? [];
    const stream = this.#streams.get(name);
    const after = seq === undefined ? this.#own.taken : Number(seq);
    if (!stream?.reaches(after))
      return refuseRequest(
        404,
        'events after this id are no longer available; send the request again',
      );
    return this.#stream(stream, after, signal);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    // End the streams first: a request that waits for its reader must not delay its own abort.
    for (const stream of this.#streams.values()) stream.end();
    await this.#end[Symbol.asyncDispose]();
    await this.#pumping;
  }

  async #request(
    message: RpcRequest,
    signal: AbortSignal | undefined,
    onEnd: () => void,
  ): Promise<Response> {
    const name = String((this.#count += 1));
    const stream = new ResumableStream(name);
    const disconnected = this.#connected(signal);
    try {
      const answered = this.#receive(message, stream).finally(onEnd);
      const answer = await quickAnswer(answered, stream, () => this.#prune());
      if (message.method === 'initialize') this.#begin(answer ?? (await answered));
      if (answer === null) return new Response(null, { status: 202 });
      if (answer) return jsonOf(answer, 200, { 'mcp-session-id': this.id });
      this.#streams.set(name, stream);
      return this.#stream(stream, 0, signal);
    } finally {
      disconnected();
    }
  }

  /** Handles a request; what belongs to it goes to the stream. */
  #receive(message: RpcRequest, stream: ResumableStream): Promise<JsonObject | undefined> {
    const related = (sent: JsonObject): Promise<void> => stream.push(sent);
    const received = this.#end.receive(message, { related, owner: this.owner });
    return this.#early.during(message.id, received);
  }

  #begin(answer: JsonObject | undefined): void {
    const version = asObject(answer?.['result'])['protocolVersion'];
    if (typeof version === 'string') this.version = version;
  }

  #stream(stream: ResumableStream, after: number, signal: AbortSignal | undefined): Response {
    const disconnected = this.#connected(signal);
    const events = stream.read({
      after,
      ...(this.version >= PRIMED && { first: stream.event(after, '') }),
      ...(signal && { signal }),
      onClose: () => {
        disconnected();
        this.#prune();
      },
    });
    const response = streamOf(events);
    response.headers.set('mcp-session-id', this.id);
    return response;
  }

  /** Drops the oldest streams that are kept for a client that may never reconnect. */
  #prune(): void {
    let [count, bytes] = [0, 0];
    for (const [name, stream] of [...this.#streams].toReversed()) {
      if (!stream.kept) continue;
      count += 1;
      bytes += stream.bytes;
      if (count > MAX_KEPT || bytes > MAX_KEPT_BYTES) this.#streams.delete(name);
    }
    if (count > 0) this.#onKept();
  }

  /** Counts a connection until the returned function is called or the signal aborts. */
  #connected(signal: AbortSignal | undefined): () => void {
    let open = true;
    this.#connections += 1;
    const close = (): void => {
      if (!open) return;
      open = false;
      this.#connections -= 1;
      this.usedAt = performance.now();
    };
    const unlisten = onAbort(signal, close);
    return () => {
      unlisten();
      close();
    };
  }
}
