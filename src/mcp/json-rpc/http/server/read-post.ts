import { DuolaneError } from '../../../../errors.ts';
import { bodyProblem, type JsonObject, tryParse } from '../../../../json.ts';
import { readRpc, RPC, type RpcMessage } from '../../../../wire/json-rpc.ts';
import { readText } from '../message-body.ts';
import { jsonOf, refuseRequest } from './http-responses.ts';

const MAX_BYTES = 16 * 1024 * 1024;

/** A message with the length of its text. */
export interface PostedMessage {
  readonly message: RpcMessage;
  readonly length: number;
}

/**
 * Reads the posted message, or returns the error response. A body over the limit is not read to its
 * end.
 */
export async function postedMessage(
  request: Request,
  maxBytes: number = MAX_BYTES,
): Promise<PostedMessage | Response> {
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
  const message = readRpc(value);
  return 'refuse' in message
    ? jsonOf(message['refuse'] as JsonObject, 400)
    : { message, length: text.length };
}
