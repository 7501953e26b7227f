import { sseResponse, type SseItem } from '../../../../http/sse-response.ts';
import { textResponse } from '../../../../http/text-response.ts';
import type { JsonObject } from '../../../../json.ts';
import { keepAlive } from '../../../../stream/keep-alive.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { encodeRpc, type RpcError, rpcError } from '../../../../wire/json-rpc.ts';
import type { ResumableStream } from './resumable-stream.ts';

/** How long a request may take before it gets a stream, whose heartbeats show that it is alive. */
const QUICK_RESPONSE_MS = 1_000;
const HEARTBEAT_MS = 15_000;

/**
 * Returns the response if it arrives soon and no other message precedes it. Otherwise returns
 * `undefined`: the response becomes the last message of the stream, and `onEnd` is called after it.
 * Returns `null` for a cancelled request, which needs no response. `answered` never rejects.
 */
export async function quickAnswer(
  answered: Promise<JsonObject | undefined>,
  stream: ResumableStream,
  onEnd: () => void = () => {},
): Promise<JsonObject | null | undefined> {
  const answer = answered.then((message) => message ?? null);
  const first = await new Promise<JsonObject | null | void>((resolve, reject) => {
    const timer = setTimeout(resolve, QUICK_RESPONSE_MS);
    const settle = (message: JsonObject | null | void): void => {
      clearTimeout(timer);
      resolve(message);
    };
    answer.then(settle, reject);
    stream.begun.then(settle, reject);
  });
  if (first !== undefined && stream.last === 0) return first;
  const finish = (message?: JsonObject | null): void => {
    if (message) stream.offer(message);
    stream.end();
    onEnd();
  };
  answer.then(finish, () => finish()).catch(reportUnexpected);
  return undefined;
}

/** A response with an event stream and heartbeats. */
export const streamOf = (items: AsyncIterable<SseItem>): Response =>
  sseResponse(keepAlive(items, HEARTBEAT_MS, () => 'heartbeat' as const));

/** A response with one message. */
export const jsonOf = (
  body: JsonObject,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response =>
  textResponse(encodeRpc(body), status, { 'content-type': 'application/json', ...headers });

/** An error response in the form of both HTTP and JSON-RPC. */
export const refuseRequest = (status: number, message: string, code = -32000): Response =>
  jsonOf(rpcError(null, code, message) satisfies RpcError, status);
