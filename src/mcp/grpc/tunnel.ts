import { create } from '@bufbuild/protobuf';
import {
  bidiStream,
  GrpcClient,
  type GrpcClientOptions,
  methodOf,
  type GrpcRoute,
} from '../../grpc/index.ts';
import { DuolaneError, malformed } from '../../errors.ts';
import { type JsonObject, omitUndefined, tryParse } from '../../json.ts';
import { onAbort, settledWithin } from '../../stream/abort.ts';
import { Channel } from '../../stream/channel.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { encodeRpc, isResponse, isRpcId, isRpcRequest, type RpcId } from '../../wire/json-rpc.ts';
import type { Upstream } from '../relay/upstream.ts';
import type { MessageTransport } from '../types.ts';
import { fromGrpcError } from './codec/grpc-errors.ts';
import { parseObject } from './codec/json-text.ts';
import { callOwner } from './routing-metadata.ts';
import { type Frame, FrameSchema, Tunnel } from './gen/mcp/stream/v1/mcp_pb.ts';

/** Serves the client of a tunnel; disposed when the client has disconnected. */
export type ServeTunnel = (transport: MessageTransport) => AsyncDisposable;

/** How many messages may wait to be sent. */
const CAPACITY = 64;

/**
 * Serves JSON-RPC over one bidirectional stream per client; the session is as long as its stream.
 */
export const tunnelRoute = (serve: ServeTunnel): GrpcRoute =>
  bidiStream(methodOf(Tunnel.method.open), async function* (frames, call) {
    const outgoing = new Channel<Frame>({ capacity: CAPACITY });
    const numbers = new WeakMap<JsonObject, bigint>();
    const transport: MessageTransport = {
      relates: true,
      owner: callOwner(call),
      incoming: messagesOf(
        frames,
        (message, { number }) => {
          if (number !== undefined) numbers.set(message, number);
        },
        () => outgoing.close(),
      ),
      send: async (message, { request } = {}) => outgoing.push(toFrame(message, request)),
      async handled(message) {
        const handled = numbers.get(message);
        if (handled !== undefined) await outgoing.push(create(FrameSchema, { handled }));
      },
      close: async () => outgoing.close(),
    };
    await using _ = serve(transport);
    yield* outgoing;
  });

/** The options of `openTunnel`. */
export interface TunnelOptions extends GrpcClientOptions {
  /** The address: `grpc://host:port`, or `grpcs://` for TLS. */
  readonly url: string;
}

/**
 * Opens a transport for JSON-RPC messages through a server's tunnel, for `dialMessages`. It
 * connects immediately and ends with the stream. Closing it disconnects.
 */
export function openTunnel({ url, ...options }: TunnelOptions): MessageTransport {
  const client = new GrpcClient(url, options);
  const transport = tunnelOf(client);
  return {
    ...transport,
    async close() {
      await transport.close?.();
      await client[Symbol.asyncDispose]();
    },
  };
}

/** How long a message waits until the server has passed it on. */
const HANDLED_MS = 5_000;

/**
 * Opens one stream of the tunnel on a connection that others share. If the server `confirms`, a
 * sent notification or response resolves when it was passed on.
 */
function tunnelOf(client: GrpcClient, confirms = false): MessageTransport {
  const scope = new AbortController();
  const outgoing = new Channel<Frame>({ capacity: CAPACITY });
  const origins = new WeakMap<JsonObject, RpcId>();
  // The messages that wait for their confirmation, each at most HANDLED_MS.
  const unhandled = new Map<bigint, () => void>();
  let sent = 0n;
  const incoming = client.stream(
    methodOf(Tunnel.method.open),
    { many: outgoing },
    { signal: scope.signal },
  );
  const take = (message: JsonObject, { requestIdJson }: Frame): void => {
    const id: unknown = requestIdJson === undefined ? undefined : tryParse(requestIdJson);
    if (isRpcId(id)) origins.set(message, id);
  };
  const release = (): void => {
    for (const resolve of unhandled.values()) resolve();
  };
  return {
    incoming: messagesOf(incoming, take, release, (number) => unhandled.get(number)?.()),
    requestOf: (message) => origins.get(message),
    async send(message) {
      if (!confirms || isRpcRequest(message)) return outgoing.push(toFrame(message));
      const number = (sent += 1n);
      const handled = new Promise<void>((resolve) => unhandled.set(number, resolve));
      try {
        await outgoing.push(create(FrameSchema, { ...toFrame(message), number }));
        await settledWithin(handled, HANDLED_MS);
      } finally {
        unhandled.delete(number);
      }
    },
    async close() {
      outgoing.close();
      scope.abort(new DuolaneError('closed', 'the connection to the tool server is closed'));
    },
  };
}

/** A server behind a tunnel, for a bridge: a stream for each client, and for each request. */
export const tunnelUpstream = (client: GrpcClient): Upstream => ({
  reopens: true,
  open: async () => tunnelOf(client, true),
  async notify(message) {
    const transport = tunnelOf(client, true);
    const reading = (async () => {
      for await (const _ of transport.incoming);
    })().catch(() => {}); // the stream ends by its close below
    await transport.send(message);
    await transport.close?.();
    await reading;
  },
  async exchange(message, { signal, onMessage }) {
    const transport = tunnelOf(client);
    const unlisten = onAbort(signal, () => {
      transport.close?.().catch(reportUnexpected);
    });
    try {
      await transport.send(message);
      for await (const received of transport.incoming) {
        if (isResponse(received)) return received;
        await onMessage(received);
      }
      throw malformed(`the server sent no response to ${message.method}`);
    } catch (error) {
      signal?.throwIfAborted();
      throw fromGrpcError(error);
    } finally {
      unlisten();
      await transport.close?.();
    }
  },
});

const toFrame = (message: JsonObject, request?: RpcId): Frame =>
  create(
    FrameSchema,
    omitUndefined({
      json: Buffer.from(encodeRpc(message)),
      requestIdJson: request === undefined ? undefined : JSON.stringify(request),
    }),
  );

/**
 * Yields the messages of the peer; `take` gets each with its frame first. Calls `onEnd` when they
 * end, or the reader stops.
 */
async function* messagesOf(
  frames: AsyncIterable<Frame>,
  take: (message: JsonObject, frame: Frame) => void,
  onEnd: () => void,
  onHandled: (number: bigint) => void = () => {},
): AsyncGenerator<JsonObject, void, undefined> {
  try {
    for await (const frame of frames) {
      if (frame.handled === undefined) {
        const message = parseObject(Buffer.from(frame.json).toString(), 'a frame of the tunnel');
        take(message, frame);
        yield message;
      } else onHandled(frame.handled);
    }
  } finally {
    onEnd();
  }
}
