import { DuolaneError } from '../../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../../json.ts';
import type { MessageTransport } from '../../../mcp/types.ts';
import { Channel } from '../../../stream/channel.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import { isRpcRequest, RPC, rpcError } from '../../../wire/json-rpc.ts';
import type { ControlLink } from '../../../wire/control-link.ts';

/** How many messages may wait for their reader, who takes each at once. */
const INBOX = 10_000;

/**
 * JSON-RPC with a server inside the host, each message in a control request. Answers are matched by
 * the control request that brought them, and our ids are strings no server would choose for its own
 * requests: some hosts take a request of the server for the answer when the numbers are equal.
 */
export class ControlTransport implements MessageTransport {
  readonly #lane: ControlLink;
  readonly #server: string;
  readonly #inbox = new Channel<JsonObject>({ capacity: INBOX });
  #waiting = 0;
  readonly #pending = new Map<string, AbortController>();

  constructor(lane: ControlLink, server: string) {
    this.#lane = lane;
    this.#server = server;
  }

  get incoming(): AsyncIterable<JsonObject> {
    return this.#read();
  }

  /** What the server sent on its own. */
  receive(message: JsonObject): void {
    if (this.#inbox.ended) return;
    if (this.#waiting >= INBOX) {
      const why = `the server ${this.#server} sent ${INBOX} messages that were not read yet`;
      this.#inbox.fail(new DuolaneError('too_large', `${why}; its connection was closed`));
      return;
    }
    this.#waiting += 1;
    this.#inbox.offer(message);
  }

  async *#read(): AsyncGenerator<JsonObject, void, undefined> {
    for await (const message of this.#inbox) {
      this.#waiting -= 1;
      yield message;
    }
  }

  async send(message: JsonObject): Promise<void> {
    if (isRpcRequest(message)) {
      // Not awaited: the answer comes back through `incoming`, whenever the tool is done.
      this.#ask(message).catch(reportUnexpected);
      return;
    }
    if (message['method'] === 'notifications/cancelled') {
      const params = asObject(message['params']);
      const id = key(params['requestId']);
      // Not awaited: a host that has stopped answering must not hold up an interrupt.
      void this.#carry({ ...message, params: { ...params, requestId: id } }).catch(() => {});
      // Hosts never answer a cancelled call: nobody waits for it here either.
      this.#pending.get(id)?.abort(new DuolaneError('canceled', 'the call was cancelled'));
      return;
    }
    await this.#carry(message);
  }

  async close(): Promise<void> {
    this.#inbox.close();
    for (const controller of this.#pending.values()) {
      controller.abort(new DuolaneError('closed', 'the connection to the server was closed'));
    }
  }

  #carry(message: JsonObject, signal?: AbortSignal): Promise<unknown> {
    const request = { subtype: 'mcp_message', server_name: this.#server, message };
    return this.#lane.request(request, signal ? { signal } : {});
  }

  async #ask(message: JsonObject & { readonly id: string | number }): Promise<void> {
    const id = key(message.id);
    const controller = new AbortController();
    this.#pending.set(id, controller);
    try {
      const answer = asObject(await this.#carry({ ...message, id }, controller.signal))[
        'mcp_response'
      ];
      if (isObject(answer)) this.receive({ ...answer, id: message.id });
      else this.receive(rpcError(message.id, RPC.internalError, 'the host sent no mcp_response'));
    } catch (reason) {
      const { code, message: text } = DuolaneError.from(reason);
      if (code !== 'canceled') this.receive(rpcError(message.id, RPC.internalError, text));
    } finally {
      this.#pending.delete(id);
    }
  }
}

const key = (id: unknown): string => `d${String(id as string | number)}`;
