import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { Channel } from '../../stream/channel.ts';
import type { DialMessagesOptions, MessageTransport, ToolSource } from '../types.ts';
import { dialMessages } from './client/dial-messages.ts';

/** The transport interface of the official MCP SDK, v1 and v2, as far as a server uses it. */
export interface SdkTransport {
  start(): Promise<void>;
  send(message: unknown, options?: { readonly relatedRequestId?: string | number }): Promise<void>;
  close(): Promise<void>;
  onmessage?: ((message: never, extra?: never) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((error: Error) => void) | undefined;
}

/** A server object of the official MCP SDK: v1 `McpServer` or `Server`, v2 server. */
export interface SdkServer {
  connect(transport: SdkTransport): Promise<void>;
  close(): Promise<void>;
}

/**
 * A server object of the official MCP SDK as a ToolSource, through its own transport interface.
 * Such an object takes one connection; this is that one, and the source made of it may serve any
 * number of sessions at once. Disposing closes the server object.
 */
export function dialInProcess(
  server: SdkServer,
  options?: DialMessagesOptions,
): Promise<ToolSource & AsyncDisposable> {
  return connect(server, sdkPair(), options);
}

interface Shared {
  readonly source: Promise<ToolSource>;
  readonly road: MemoryMessageTransport;
}

/** Whatever the server asks in a call is an `input` of that call, and whoever offers it asks on. */
const CAN_BE_ASKED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

const shared = new WeakMap<SdkServer, Shared>();

/**
 * What a program gives as the `instance` of an in-process server: a ToolSource as it is, a server
 * object of the official SDK dialled once and shared by all who ask, for as long as it is open.
 */
export function asToolSource(instance: ToolSource | SdkServer): Promise<ToolSource> {
  if (!('connect' in instance)) return Promise.resolve(instance);
  const known = shared.get(instance);
  if (known && !known.road.ended) return known.source;
  const pair = sdkPair();
  const source = connect(instance, pair, { capabilities: CAN_BE_ASKED });
  shared.set(instance, { source, road: pair[0] });
  return source;
}

async function connect(
  server: SdkServer,
  [ours, theirs]: [MemoryMessageTransport, SdkTransport],
  options?: DialMessagesOptions,
): Promise<ToolSource & AsyncDisposable> {
  try {
    await server.connect(theirs);
  } catch (error) {
    await ours.close();
    throw error;
  }
  const close = async (): Promise<void> => {
    await ours.close();
    await server.close();
  };
  return dialMessages({ ...ours, close }, options);
}

export interface MemoryMessageTransport extends MessageTransport {
  readonly ended: boolean;
  close(): Promise<void>;
}

/** A road in memory: our end, and the other as the official SDK wants it. */
export function sdkPair(): [MemoryMessageTransport, SdkTransport] {
  const toUs = new Channel<JsonObject>({ capacity: 64 });
  const origins = new WeakMap<JsonObject, string | number>();
  const theirs: SdkTransport = {
    async start() {},
    async send(message, { relatedRequestId } = {}) {
      if (!isObject(message)) throw new DuolaneError('malformed', 'a message must be an object');
      if (relatedRequestId !== undefined) origins.set(message, relatedRequestId);
      await toUs.push(message);
    },
    async close() {
      if (toUs.ended) return;
      toUs.close();
      theirs.onclose?.();
    },
  };
  const ours: MemoryMessageTransport = {
    incoming: toUs,
    requestOf: (message) => origins.get(message),
    get ended() {
      return toUs.ended;
    },
    async send(message) {
      if (toUs.ended) throw new DuolaneError('closed', 'the other side has gone');
      // Not in the sender's stack: a handler that answers at once must not run inside `send`.
      await Promise.resolve();
      theirs.onmessage?.(message as never);
    },
    close: () => theirs.close(),
  };
  return [ours, theirs];
}
