import { DuolaneError, malformed } from '../../../../errors.ts';
import { asObject, type JsonObject } from '../../../../json.ts';
import { onAbort } from '../../../../stream/abort.ts';
import { Channel } from '../../../../stream/channel.ts';
import type { Abortable } from '../../../../stream/types.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { isRpcRequest } from '../../../../wire/json-rpc.ts';
import { SseDecoder, type SseMessage } from '../../../../wire/sse.ts';
import type { MessageTransport } from '../../../types.ts';
import { mediaType, messagesIn, sseEvents } from '../message-body.ts';
import {
  type Authorizer,
  type Exchange,
  HttpConnection,
  type HttpOptions,
} from './http-exchange.ts';
import { readErrorBody, httpError } from './http-errors.ts';

/**
 * The client side of the HTTP+SSE transport of 2024: one stream for all incoming messages, a POST
 * for each outgoing one.
 */
export class SseTransport implements MessageTransport {
  readonly #connection: HttpConnection;
  readonly #incoming = new Channel<JsonObject>({ capacity: 64 });
  /** The requests whose POST has no response yet, by their id. */
  readonly #posting = new Map<unknown, Promise<void>>();
  #endpoint: URL | undefined;

  constructor(options: HttpOptions, authorizer?: Authorizer) {
    this.#connection = new HttpConnection(options, authorizer);
  }

  get incoming(): AsyncIterable<JsonObject> {
    return this.#incoming;
  }

  get isLoggingIn(): boolean {
    return this.#connection.isLoggingIn;
  }

  /**
   * Opens the stream. Resolves when the server has named the address for messages; a failure closes
   * everything.
   */
  async open(signal?: AbortSignal): Promise<void> {
    const exchange = this.#connection.open();
    const unlisten = onAbort(signal, (reason) =>
      this.#connection.close(DuolaneError.from(reason, 'canceled')),
    );
    try {
      const events = await this.#connect(exchange);
      const { done, value } = await events.next();
      if (done || value.event !== 'endpoint') throw noEndpoint();
      this.#endpoint = this.#resolve(value.data);
      this.#read(events)
        .finally(() => exchange[Symbol.dispose]())
        .catch(reportUnexpected);
    } catch (error) {
      exchange[Symbol.dispose]();
      signal?.throwIfAborted();
      throw error;
    } finally {
      unlisten();
    }
  }

  /**
   * Sends a message. Each has a connection of its own, so a cancellation waits until the server has
   * its request: servers ignore the cancellation of a request that they do not know.
   */
  async send(message: JsonObject, { signal }: Abortable = {}): Promise<void> {
    if (message['method'] === 'notifications/cancelled') {
      const { requestId } = asObject(message['params']);
      await this.#posting.get(requestId)?.catch(() => {}); // the sender of the request reports it
    }
    if (!isRpcRequest(message)) return this.#post(message, signal);
    const posting = this.#post(message, signal);
    this.#posting.set(message.id, posting);
    try {
      await posting;
    } finally {
      if (this.#posting.get(message.id) === posting) this.#posting.delete(message.id);
    }
  }

  async #post(message: JsonObject, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#endpoint) throw noEndpoint();
    using exchange = this.#connection.open(signal);
    const headers = { 'content-type': 'application/json' };
    const response = await exchange.ask(this.#endpoint, { method: 'POST', headers, body: message });
    if (!response.ok) throw await httpError(response, 'a message');
    await readErrorBody(response);
  }

  async close(): Promise<void> {
    this.#incoming.close();
    this.#connection.close(
      new DuolaneError('closed', 'the connection to the tool server is closed'),
    );
  }

  async #connect(exchange: Exchange): Promise<AsyncGenerator<SseMessage, void, undefined>> {
    const headers = { accept: 'text/event-stream' };
    const response = await exchange.ask(this.#connection.url, { method: 'GET', headers });
    if (!response.ok) throw await httpError(response, 'the event stream');
    if (mediaType(response) !== 'text/event-stream') throw noEndpoint();
    return sseEvents(response, new SseDecoder());
  }

  async #read(events: AsyncIterable<SseMessage>): Promise<void> {
    try {
      for await (const event of events) {
        for (const message of messagesIn(event)) await this.#incoming.push(message);
      }
      throw new DuolaneError('network', 'the tool server ended the event stream; dial again');
    } catch (error) {
      if (!this.#incoming.ended) this.#incoming.fail(error);
    }
  }

  /**
   * Resolves the address for messages. It must have the server's own origin: a stream must not make
   * us send our headers elsewhere.
   */
  #resolve(address: string): URL {
    const { url } = this.#connection;
    if (!URL.canParse(address, url.href)) throw noEndpoint();
    const endpoint = new URL(address, url);
    if (endpoint.origin !== url.origin)
      throw malformed(
        `the tool server at ${url.origin} sent an address at ${endpoint.origin}: expected one of its own origin`,
      );
    return endpoint;
  }
}

const noEndpoint = (): DuolaneError =>
  malformed(
    'the server sent no address for messages: expected an endpoint event; check that the URL is the event stream of an MCP server (type sse)',
  );
