import { create } from '@bufbuild/protobuf';
import {
  bidiStream,
  GrpcClient,
  type GrpcClientOptions,
  methodOf,
  type GrpcRoute,
} from '../../grpc/index.ts';
import type { JsonObject } from '../../json.ts';
import { Channel } from '../../stream/channel.ts';
import { encodeRpc } from '../../wire/json-rpc.ts';
import type { MessageTransport } from '../types.ts';
import { parseObject } from './codec/json-text.ts';
import { type Frame, FrameSchema, Tunnel } from './gen/mcp/stream/v1/mcp_pb.ts';

/** Serves the client of a tunnel; disposed when the client has disconnected. */
export type ServeTunnel = (transport: MessageTransport) => AsyncDisposable;

/** How many messages may wait to be sent. */
const CAPACITY = 64;

/**
 * Serves JSON-RPC over one bidirectional stream per client; the session is as long as its stream.
 */
export const tunnelRoute = (serve: ServeTunnel): GrpcRoute =>
  bidiStream(methodOf(Tunnel.method.open), async function* (frames) {
    const outgoing = new Channel<Frame>({ capacity: CAPACITY });
    const transport: MessageTransport = {
      incoming: messagesOf(frames, () => outgoing.close()),
      send: async (message) => outgoing.push(toFrame(message)),
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
  const outgoing = new Channel<Frame>({ capacity: CAPACITY });
  const incoming = client.stream(methodOf(Tunnel.method.open), { many: outgoing });
  return {
    incoming: messagesOf(incoming),
    send: async (message) => outgoing.push(toFrame(message)),
    async close() {
      outgoing.close();
      await client[Symbol.asyncDispose]();
    },
  };
}

const toFrame = (message: JsonObject): Frame =>
  create(FrameSchema, { json: Buffer.from(encodeRpc(message)) });

/** Yields the messages of the peer. Calls `onEnd` when they end, or the reader stops. */
async function* messagesOf(
  frames: AsyncIterable<Frame>,
  onEnd = (): void => {},
): AsyncGenerator<JsonObject, void, undefined> {
  try {
    for await (const { json } of frames)
      yield parseObject(Buffer.from(json).toString(), 'a frame of the tunnel');
  } finally {
    onEnd();
  }
}
