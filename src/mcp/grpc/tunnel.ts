import { create } from '@bufbuild/protobuf';
import { DuolaneError } from '../../errors.ts';
import {
  bidiStream,
  GrpcClient,
  type GrpcClientOptions,
  methodOf,
  type GrpcRoute,
} from '../../grpc/index.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { Channel } from '../../stream/channel.ts';
import { encodeRpc } from '../../wire/json-rpc.ts';
import type { MessageTransport } from '../types.ts';
import { type Frame, FrameSchema, Tunnel } from './gen/mcp/stream/v1/mcp_pb.ts';

/** Serves the client at the other end of a tunnel; disposed when the client has gone. */
export type ServeTunnel = (road: MessageTransport) => AsyncDisposable;

/** Messages that may wait to be sent. */
const CAPACITY = 64;

/** JSON-RPC over one bidirectional stream for each client: a session is as long as its stream. */
export const tunnelRoute = (serve: ServeTunnel): GrpcRoute =>
  bidiStream(methodOf(Tunnel.method.open), async function* (frames) {
    const outgoing = new Channel<Frame>({ capacity: CAPACITY });
    const road: MessageTransport = {
      incoming: endingWith(messagesOf(frames), outgoing),
      send: async (message) => outgoing.push(toFrame(message)),
      close: async () => outgoing.close(),
    };
    await using _ = serve(road);
    yield* outgoing;
  });

/** What the client sends; when that ends, so does what it is sent. */
async function* endingWith<T>(
  items: AsyncIterable<T>,
  channel: Channel<Frame>,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } finally {
    channel.close();
  }
}

export interface TunnelOptions extends GrpcClientOptions {
  /** `grpc://host:port`, or `grpcs://`. */
  readonly url: string;
}

/**
 * A road for JSON-RPC messages through a server's tunnel, for `dialMessages`. Connects at once; ends
 * with the stream. Closing it hangs up.
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

async function* messagesOf(
  frames: AsyncIterable<Frame>,
): AsyncGenerator<JsonObject, void, undefined> {
  for await (const { json } of frames) yield parse(json);
}

function parse(json: Uint8Array): JsonObject {
  let message: unknown;
  try {
    message = JSON.parse(Buffer.from(json).toString());
  } catch (cause) {
    throw new DuolaneError('malformed', 'a frame of the tunnel is no JSON', { cause });
  }
  if (isObject(message)) return message;
  throw new DuolaneError('malformed', 'a frame of the tunnel is no message');
}
