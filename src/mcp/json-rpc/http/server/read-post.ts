import { DuolaneError } from '../../../../errors.ts';
import { bodyProblem, type JsonObject, tryParse } from '../../../../json.ts';
import { readRpc, RPC, type RpcMessage } from '../../../../wire/json-rpc.ts';
import { readText } from '../message-body.ts';
import { jsonOf, refuseRequest } from './http-responses.ts';

const MAX_BYTES = 16 * 1024 * 1024;

/** How many messages a batch may have. */
const MAX_BATCH = 100;

/** The messages of a body with the length of its text. */
export interface PostedMessages {
  readonly messages: readonly [RpcMessage, ...RpcMessage[]];
  /** Whether the body is an array, as the revision 2025-03-26 allows. */
  readonly isBatch: boolean;
  readonly length: number;
}

/**
 * Reads the posted message, or the messages of a batch; or returns the error response. A body over
 * the limit is not read to its end.
 */
export async function postedMessages(
  request: Request,
  maxBytes: number = MAX_BYTES,
): Promise<PostedMessages | Response> {
  let text: string;
  try {
    text = await readText(request, maxBytes);
  } catch (error) {
    const { code, message } = DuolaneError.from(error);
    if (code === 'too_large') return refuseRequest(413, message);
    if (code === 'overloaded') return refuseRequest(503, message, RPC.internalError);
    throw error;
  }
  const problem = bodyProblem(text);
  if (problem !== undefined) return refuseRequest(400, problem, RPC.invalidRequest);
  const value = tryParse(text);
  if (value === undefined) return refuseRequest(400, 'parse error: expected JSON', RPC.parseError);
  const isBatch = Array.isArray(value);
  const [first, ...others] = isBatch ? (value as readonly unknown[]) : [value];
  if (isBatch && (first === undefined || others.length >= MAX_BATCH))
    return refuseRequest(
      400,
      `invalid batch: expected 1 to ${MAX_BATCH} messages`,
      RPC.invalidRequest,
    );
  const messages: [RpcMessage, ...RpcMessage[]] = [readRpc(first) as RpcMessage];
  for (const other of others) messages.push(readRpc(other) as RpcMessage);
  const invalid = messages.find((message) => 'refuse' in message);
  if (invalid) return jsonOf(invalid['refuse'] as JsonObject, 400);
  return { messages, isBatch, length: text.length };
}
