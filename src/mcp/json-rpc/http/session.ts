import { randomUUID } from 'node:crypto';
import type { SseItem } from '../../../http/sse.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { disposeOnce } from '../../../stream/dispose-once.ts';
import { isRequest, isRpcId, type RpcId, type RpcRequest } from '../../../wire/json-rpc.ts';
import type { MessageEnd, OfferMessagesOptions, ToolSource } from '../../types.ts';
import { offerMessages } from '../offer.ts';
import { EventStream } from './event-stream.ts';
import { jsonOf, quickAnswer, refuse, streamOf } from './respond.ts';

/** Streams of answers that are over and kept for a client that comes back. */
const MAX_KEPT = 16;

/** Cancels that are remembered for requests still to come. */
const MAX_OVERTAKEN = 256;

/** The stream that belongs to no request. */
const OWN = 'own';

/** From this revision on a stream begins with an id, so that a client can come back at any time. */
const PRIMED = '2025-11-25';

/**
 * One client of the revisions with sessions. Its requests go on when a connection breaks: what they
 * say is kept, within limits, until it comes back or the session ends.
 */
export class Session implements AsyncDisposable {
  readonly id: string = randomUUID();
  readonly owner: string | undefined;
  readonly #end: MessageEnd;
  readonly #own = new EventStream(OWN);
  readonly #streams = new Map<string, EventStream>([[OWN, this.#own]]);
  readonly #running = new Set<RpcId>();
  /** Ids of requests that were cancelled before they came. */
  readonly #overtaken = new Set<RpcId>();
  readonly #pumping: Promise<void>;
  /** Agreed on by `initialize`; empty until it has succeeded. */
  version = '';
  #count = 0;
  /** Connections and requests that are open. */
  #busy = 0;
  /** When it was last busy, in Unix ms. */
  usedAt: number = Date.now();

  constructor(source: ToolSource, options: OfferMessagesOptions, owner?: string) {
    this.owner = owner;
    this.#end = offerMessages(source, options);
    this.#pumping = this.#pump();
  }

  get idle(): boolean {
    return this.#busy === 0;
  }

  async post(message: JsonObject): Promise<Response> {
    if (isRequest(message)) {
      if (this.#overtaken.delete(message.id)) return new Response(null, { status: 202 });
      return this.#request(message);
    }
    if (message['method'] === 'notifications/cancelled') this.#cancel(message);
    await this.#end.receive(message);
    return new Response(null, { status: 202 });
  }

  /** The server's own messages; with the id of an event, the rest of the stream that had it. */
  get(lastEventId: string | null): Response {
    const [, name = OWN, seq] = /^(.+)_(\d+)$/.exec(lastEventId ?? '') ?? [];
    const stream = this.#streams.get(name);
    const after = seq === undefined ? this.#own.taken : Number(seq);
    if (!stream?.reaches(after)) return refuse(404, 'What came after this event is not kept');
    return this.#stream(stream, after);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    await this.#end[Symbol.asyncDispose]();
    for (const stream of this.#streams.values()) stream.end();
    await this.#pumping;
  }

  async #request(message: RpcRequest): Promise<Response> {
    const name = String((this.#count += 1));
    const stream = new EventStream(name);
    this.#running.add(message.id);
    const answered = this.#use(
      this.#end.receive(message, { related: (related) => stream.push(related) }),
    ).finally(() => this.#running.delete(message.id));
    const answer = await quickAnswer(answered, stream);
    if (message.method === 'initialize') this.#begin(answer ?? (await answered));
    if (answer === null) return new Response(null, { status: 202 });
    if (answer) return jsonOf(answer, 200, { 'mcp-session-id': this.id });
    this.#keep(name, stream);
    return this.#stream(stream, 0);
  }

  /** On connections of their own, a cancel may come before what it cancels. */
  #cancel({ params }: JsonObject): void {
    const id = isObject(params) ? params['requestId'] : undefined;
    if (!isRpcId(id) || this.#running.has(id)) return;
    this.#overtaken.add(id);
    const [oldest] = this.#overtaken;
    if (this.#overtaken.size > MAX_OVERTAKEN && oldest !== undefined)
      this.#overtaken.delete(oldest);
  }

  #begin(answer: JsonObject | undefined): void {
    const version = isObject(answer?.['result']) && answer['result']['protocolVersion'];
    if (typeof version === 'string') this.version = version;
  }

  #stream(stream: EventStream, after: number): Response {
    const response = streamOf(this.#track(stream.read(after, this.version >= PRIMED)));
    response.headers.set('mcp-session-id', this.id);
    return response;
  }

  #keep(name: string, stream: EventStream): void {
    this.#streams.set(name, stream);
    const spent = [...this.#streams].filter(([, each]) => each.spent);
    for (const [old] of spent.slice(0, -MAX_KEPT)) this.#streams.delete(old);
  }

  async #pump(): Promise<void> {
    for await (const message of this.#end.outgoing) await this.#own.push(message);
  }

  async #use<T>(work: Promise<T>): Promise<T> {
    this.#busy += 1;
    return work.finally(() => this.#free());
  }

  async *#track(items: AsyncIterable<SseItem>): AsyncGenerator<SseItem, void, undefined> {
    this.#busy += 1;
    try {
      yield* items;
    } finally {
      this.#free();
    }
  }

  #free(): void {
    this.#busy -= 1;
    this.usedAt = Date.now();
  }
}
