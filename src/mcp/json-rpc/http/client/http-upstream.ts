import { malformed } from '../../../../errors.ts';
import { type JsonObject, omitUndefined } from '../../../../json.ts';
import { disposeOnce } from '../../../../stream/dispose-once.ts';
import type { Abortable } from '../../../../stream/types.ts';
import { isResponse, type RpcRequest } from '../../../../wire/json-rpc.ts';
import type { ExchangeOptions, Upstream } from '../../../relay/upstream.ts';
import type { MessageSendOptions, MessageTransport } from '../../../types.ts';
import type { Authorizer, HttpOptions } from './http-exchange.ts';
import { HttpTransport } from './http-transport.ts';
import { SseTransport } from './sse-transport.ts';

/** An authorizer for one more connection; its owner closes it. */
const lent = (authorizer: Authorizer | undefined): Authorizer | undefined =>
  authorizer && {
    headers: (signal) => authorizer.headers(signal),
    refused: (response, used, signal) => authorizer.refused(response, used, signal),
    close: () => {},
    get isWorking() {
      return authorizer.isWorking;
    },
  };

/** A server over Streamable HTTP, for a bridge: a session for each client of a session. */
export class HttpUpstream implements Upstream, AsyncDisposable {
  readonly protocol: Upstream['protocol'];
  readonly reopens = true;
  readonly #options: HttpOptions;
  readonly #authorizer: Authorizer | undefined;
  /** The connections for requests without a session. */
  #stateless: HttpTransport | undefined;

  constructor(
    options: HttpOptions,
    authorizer?: Authorizer,
    protocol?: NonNullable<Upstream['protocol']>,
  ) {
    this.#options = options;
    this.#authorizer = authorizer;
    this.protocol = protocol;
  }

  async open(): Promise<MessageTransport> {
    return new HttpTransport(this.#options, lent(this.#authorizer));
  }

  async exchange(message: RpcRequest, { signal, onMessage }: ExchangeOptions): Promise<JsonObject> {
    let response: JsonObject | undefined;
    const take = async (received: JsonObject): Promise<void> => {
      if (isResponse(received)) response = received;
      else await onMessage(received);
    };
    const options = omitUndefined<MessageSendOptions>({ signal, onMessage: take });
    await this.#withoutSession().send(message, options);
    if (!response) throw malformed(`the tool server sent no response to ${message.method}`);
    return response;
  }

  async notify(message: JsonObject): Promise<void> {
    await this.#withoutSession().send(message);
  }

  #withoutSession(): HttpTransport {
    return (this.#stateless ??= new HttpTransport(this.#options, lent(this.#authorizer)));
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    await this.#stateless?.close();
  });
}

/** A server of the HTTP+SSE transport of 2024, for a bridge. */
export const sseUpstream = (options: HttpOptions, authorizer?: Authorizer): Upstream => ({
  protocol: 'session',
  reopens: true,
  async open({ signal }: Abortable) {
    const transport = new SseTransport(options, lent(authorizer));
    await transport.open(signal);
    return transport;
  },
});
