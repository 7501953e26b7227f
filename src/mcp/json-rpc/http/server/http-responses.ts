import { sseResponse, type SseItem } from '../../../../http/sse-response.ts';
import { textResponse } from '../../../../http/text-response.ts';
import type { JsonObject } from '../../../../json.ts';
import { keepAlive } from '../../../../stream/keep-alive.ts';
import { reportUnexpected } from '../../../../stream/report-unexpected.ts';
import { encodeRpc, type RpcError, rpcError } from '../../../../wire/json-rpc.ts';
import type { ResumableStream } from './resumable-stream.ts';

/** A request that is silent for so long gets its stream, so that nobody takes it for dead. */
const QUICK_RESPONSE_MS = 1_000;
const HEARTBEAT_MS = 15_000;

/**
 * The answer, if it comes soon and nothing before it. Else undefined: the answer will be the last
 * message of the stream, and `onEnd` is called after it. `null` stands for a request that was
 * cancelled, to which nothing is owed. `answered` never rejects.
 */
export async function quickAnswer(
  answered: Promise<JsonObject | undefined>,
  stream: ResumableStream,
  onEnd: () => void = () => {},
): Promise<JsonObject | null | undefined> {
  const answer = answered.then((message) => message ?? null);
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => (timer = setTimeout(resolve, QUICK_RESPONSE_MS)));
  const first = await Promise.race([answer, stream.begun, patience]);
  clearTimeout(timer);
  if (first !== undefined && stream.last === 0) return first;
  const finish = (message?: JsonObject | null): void => {
    if (message) stream.offer(message);
    stream.end();
    onEnd();
  };
  answer.then(finish, () => finish()).catch(reportUnexpected);
  return undefined;
}

export const streamOf = (items: AsyncIterable<SseItem>): Response =>
  sseResponse(keepAlive(items, HEARTBEAT_MS, () => 'heartbeat' as const));

export const jsonOf = (
  body: JsonObject,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response =>
  textResponse(encodeRpc(body), status, { 'content-type': 'application/json', ...headers });

/** A refusal in the words of both HTTP and JSON-RPC. */
export const refuseRequest = (status: number, message: string, code = -32000): Response =>
  jsonOf(rpcError(null, code, message) satisfies RpcError, status);
