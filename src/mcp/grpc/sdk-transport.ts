import { DuolaneError } from '../../errors.ts';
import { isObject } from '../../json.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { MessageTransport } from '../types.ts';
import { openTunnel, type ServeTunnel, type TunnelOptions } from './tunnel.ts';

/**
 * A transport in the form of the official MCP SDK, v1 and v2, over messages. The SDK sets the
 * callbacks before it calls `start`.
 */
class MessagesAsSdkTransport {
  onmessage?: ((message: never, extra?: never) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
  readonly #open: () => MessageTransport;
  #transport: MessageTransport | undefined;
  #reading: Promise<void> | undefined;

  constructor(open: () => MessageTransport) {
    this.#open = open;
  }

  async start(): Promise<void> {
    if (this.#transport)
      throw new DuolaneError('conflict', 'cannot start: the transport is open; create a new one');
    this.#transport = this.#open();
    this.#reading = this.#read(this.#transport);
  }

  async send(message: unknown): Promise<void> {
    if (!this.#transport)
      throw new DuolaneError('closed', 'cannot send: the transport is closed; start it first');
    if (!isObject(message))
      throw new DuolaneError('invalid', 'invalid message: expected a JSON-RPC message');
    await this.#transport.send(message);
  }

  readonly close: () => Promise<void> = disposeOnce(async () => {
    await this.#transport?.close?.();
    await this.#reading;
  });

  /** Hands each message to the SDK until the stream ends. Never rejects. */
  async #read(transport: MessageTransport): Promise<void> {
    try {
      for await (const message of transport.incoming) this.onmessage?.(message as never);
    } catch (error) {
      this.onerror?.(DuolaneError.from(error, 'network'));
    } finally {
      this.onclose?.();
    }
  }
}

/**
 * The client transport over gRPC for programs on the official MCP SDK: pass it to
 * `client.connect`. It needs a server with a `tunnel`.
 *
 * @example
 * ```ts
 * const transport = new GrpcClientTransport({ url: 'grpc://127.0.0.1:50051' });
 * await transport.start();
 * ```
 */
export class GrpcClientTransport extends MessagesAsSdkTransport {
  constructor(options: TunnelOptions) {
    super(() => openTunnel(options));
  }
}

/** A server object of the official MCP SDK: v1 `McpServer` or `Server`, v2 server. */
export interface TunnelServer {
  connect(transport: MessagesAsSdkTransport): Promise<void>;
  close(): Promise<void>;
}

/**
 * The `tunnel` of `offerGrpc` for servers of the official MCP SDK: `create` makes the server object
 * of each client, since such an object accepts one connection.
 */
export const sdkTunnel =
  (create: () => TunnelServer): ServeTunnel =>
  (transport) => {
    const server = create();
    const connected = server
      .connect(new MessagesAsSdkTransport(() => transport))
      .catch(async (error: unknown) => {
        reportUnexpected(error);
        await transport.close?.();
      });
    return {
      [Symbol.asyncDispose]: disposeOnce(async () => {
        await connected;
        await server.close();
      }),
    };
  };
