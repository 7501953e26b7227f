import type { JsonObject } from '../json.ts';
import type { Abortable } from '../stream/types.ts';

/** The options of `MessageTransport.send`. */
export interface MessageSendOptions extends Abortable {
  /**
   * Receives the messages on the own stream of a request instead of `incoming`, its response
   * included. It is awaited. Transports without such streams ignore it.
   */
  readonly onMessage?: (message: JsonObject) => Promise<void>;
  /** The id of the peer's request that the message belongs to, for a transport that `relates`. */
  readonly request?: string | number;
}

/** A bidirectional transport for JSON-RPC messages, such as the control lane, a pipe or HTTP. */
export interface MessageTransport {
  /**
   * Sends one message. Resolves when the peer has taken it. On a transport with a stream per
   * request, it resolves when that stream has delivered the response and rejects if the response is
   * lost; the signal closes that stream. Other transports may ignore the signal.
   */
  send(message: JsonObject, options?: MessageSendOptions): Promise<void>;
  /** The messages of the peer, for one reader; ends when the peer has disconnected. */
  readonly incoming: AsyncIterable<JsonObject>;
  /**
   * Whether closing the stream of a request cancels it. Then no `notifications/cancelled` is sent.
   */
  readonly cancelsByClosing?: boolean;
  /**
   * Whether a person may have to log in before a response arrives. Then `protocol: 'auto'` does not
   * take silence as a sign of an old server.
   */
  readonly mayWait?: boolean;
  /** Whether a person is logging in now. The time limits of requests do not count that time. */
  readonly isLoggingIn?: boolean;
  /**
   * The id of our request on whose own stream an incoming message arrived, if the transport has
   * such streams.
   */
  requestOf?(message: JsonObject): string | number | undefined;
  /** Whether the transport passes on which request a sent message belongs to (`requestOf`). */
  readonly relates?: boolean;
  /** The authenticated owner of the requests of the peer, who alone finds its tasks. */
  readonly owner?: string | undefined;
  /** Called when a received notification or response was handled, so that its sender knows. */
  handled?(message: JsonObject): Promise<void>;
  close?(): Promise<void>;
}
