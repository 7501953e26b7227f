import { DuolaneError, malformed } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { Channel } from '../../stream/channel.ts';
import { NO_LIMITS } from '../sources/request-timer.ts';
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
 * Connects to a server object of the official MCP SDK through its transport interface. Such an
 * object accepts one connection; this is that one, and the source may serve any number of sessions
 * at the same time. Disposing closes the server object.
 */
export function dialInProcess(
  server: SdkServer,
  options?: DialMessagesOptions,
): Promise<ToolSource & AsyncDisposable> {
  return connect(server, sdkPair(), options);
}

interface Shared {
  readonly source: Promise<ToolSource>;
  readonly transport: MemoryMessageTransport;
}

/**
 * What a server object may ask: its questions become `input` events of the call, which the offering
 * side passes on.
 */
const CAN_BE_ASKED = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

const shared = new WeakMap<SdkServer, Shared>();

/**
 * Returns the `instance` of an in-process server as a ToolSource. A ToolSource is returned as it
 * is; a server object of the official SDK is dialled once and shared while its connection is open.
 */
export function asToolSource(instance: ToolSource | SdkServer): Promise<ToolSource> {
  if (!('connect' in instance)) return Promise.resolve(instance);
  const known = shared.get(instance);
  if (known && !known.transport.ended) return known.source;
  const pair = sdkPair();
  const source = connect(instance, pair, { capabilities: CAN_BE_ASKED });
  shared.set(instance, { source, transport: pair[0] });
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
  // A function of this process has no time limit by default; its program can set one.
  return dialMessages({ ...ours, close }, { ...NO_LIMITS, ...options });
}

/** Our side of a transport in memory. */
export interface MemoryMessageTransport extends MessageTransport {
  readonly ended: boolean;
  close(): Promise<void>;
}

/** A transport in memory: our side, and the side of the server object. */
export function sdkPair(): [MemoryMessageTransport, SdkTransport] {
  const toUs = new Channel<JsonObject>({ capacity: 64 });
  const origins = new WeakMap<JsonObject, string | number>();
  const theirs: SdkTransport = {
    async start() {},
    async send(message, { relatedRequestId } = {}) {
      if (!isObject(message))
        throw malformed('cannot send a message that is not an object: expected a JSON-RPC message');
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
      if (toUs.ended)
        throw new DuolaneError(
          'closed',
          'cannot send: the server object has closed the connection',
        );
      // Deliver outside the sender's stack: a handler that responds synchronously must not run
      // inside `send`.
      await Promise.resolve();
      theirs.onmessage?.(message as never);
    },
    close: () => theirs.close(),
  };
  return [ours, theirs];
}
