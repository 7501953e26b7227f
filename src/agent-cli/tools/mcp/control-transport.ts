import { DuolaneError } from '../../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../../json.ts';
import type { MessageTransport } from '../../../mcp/types.ts';
import { Channel } from '../../../stream/channel.ts';
import { reportUnexpected } from '../../../stream/report-unexpected.ts';
import { isRpcRequest, RPC, rpcError } from '../../../wire/json-rpc.ts';
import type { ControlLink } from '../../../wire/control-link.ts';

/** The limit of unread messages. The reader takes each message immediately. */
const INBOX = 10_000;

/**
 * Carries JSON-RPC to an MCP server inside the host, each message in a control request. The control
 * response brings the JSON-RPC response. The ids of requests are strings that no server chooses for
 * its own requests: some hosts take a request of the server for the response if the ids are equal.
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

  /** Takes a message that the server sent on its own initiative. */
  receive(message: JsonObject): void {
    if (this.#inbox.ended) return;
    if (this.#waiting >= INBOX) {
      const why = `MCP server "${this.#server}" exceeds the limit of ${INBOX} unread messages`;
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
      // Not awaited: the response arrives through `incoming` when the tool is done.
      this.#request(message).catch(reportUnexpected);
      return;
    }
    if (message['method'] === 'notifications/cancelled') {
      const params = asObject(message['params']);
      const id = key(params['requestId']);
      // Not awaited: a host that does not respond must not delay an interrupt.
      void this.#carry({ ...message, params: { ...params, requestId: id } }).catch(() => {});
      // Hosts never respond to a cancelled call, so its control request is ended here.
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

  async #request(message: JsonObject & { readonly id: string | number }): Promise<void> {
    const id = key(message.id);
    const controller = new AbortController();
    this.#pending.set(id, controller);
    try {
      const { mcp_response: response } = asObject(
        await this.#carry({ ...message, id }, controller.signal),
      );
      this.receive(
        isObject(response)
          ? { ...response, id: message.id }
          : rpcError(
              message.id,
              RPC.internalError,
              'the host sent a response without mcp_response: expected an object',
            ),
      );
    } catch (reason) {
      const { code, message: text } = DuolaneError.from(reason);
      if (code !== 'canceled') this.receive(rpcError(message.id, RPC.internalError, text));
    } finally {
      this.#pending.delete(id);
    }
  }
}

const key = (id: unknown): string => `d${String(id as string | number)}`;
