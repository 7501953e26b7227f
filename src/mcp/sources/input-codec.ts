import { type Answer, elicitationKind, type InputRequest } from '../../ask.ts';
import { malformed, invalid } from '../../errors.ts';
import { asObject, isObject, type JsonObject } from '../../json.ts';

/** The requests that a server may send to a client, and the client capability that each needs. */
export const CAPABILITY: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** The `_meta` key for the kind of a question, for questions whose form does not show it. */
const KIND = 'duolane/kind';
const KINDS = ['approval', 'question', 'auth'] as const;

/** A question as a request of the protocol. */
export interface WireInput {
  readonly method: string;
  readonly params: JsonObject;
}

/**
 * Encodes a question as a request. A question that came from another server is passed on unchanged.
 */
export function toWire({ kind, message, schema, data }: InputRequest): WireInput {
  const { method, params } = asObject(data);
  if (typeof method === 'string' && Object.hasOwn(CAPABILITY, method) && isObject(params))
    return { method, params };
  const mode = 'form';
  return {
    method: 'elicitation/create',
    params: {
      mode,
      message: message ?? 'The tool needs your answer.',
      requestedSchema: schema ?? { type: 'object', properties: {} },
      ...(elicitationKind(mode, schema) !== kind && { _meta: { [KIND]: kind } }),
    },
  };
}

/** Decodes a request of a server as a question. Throws `malformed` if it is not one. */
export function fromWire(callId: string, key: string, value: unknown): InputRequest {
  const { method, params = {} } = asObject(value);
  if (typeof method !== 'string' || !isObject(params))
    throw malformed(
      `the server sent the question "${key}" without a method: expected a method and params`,
    );
  const { message, requestedSchema, mode, _meta: meta } = params;
  const announced = isObject(meta) ? KINDS.find((kind) => kind === meta[KIND]) : undefined;
  const elicits = method === 'elicitation/create';
  return {
    id: `${callId}/${key}`,
    callId,
    kind: elicits ? (announced ?? elicitationKind(mode, requestedSchema)) : 'question',
    ...(typeof message === 'string' && { message }),
    ...(isObject(requestedSchema) && { schema: requestedSchema }),
    data: { method, params },
  };
}

/**
 * The key of a question on the wire: its id without the prefix of the call, because the next round
 * may have another call id.
 */
export const keyOf = (callId: string, { id }: Pick<InputRequest, 'id'>): string =>
  id.startsWith(`${callId}/`) ? id.slice(callId.length + 1) : id;

/**
 * Decodes the response of a client. The result of any request but an elicitation is the content of
 * an accepted answer.
 */
export function toAnswer(id: string, response: unknown): Answer {
  if (!isObject(response))
    throw malformed(
      `the client sent an answer to "${id}" that is not an object: expected an object`,
    );
  const { action, content } = response;
  if (action === undefined) return { id, action: 'accept', content: response };
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
    throw malformed(
      `the client sent an answer to "${id}" with an unknown action: expected accept, decline or cancel`,
    );
  return { id, action, ...(content !== undefined && { content }) };
}

/**
 * Encodes an answer as the result of the request that asked. Throws `invalid` if a request without
 * a form for a refusal was declined.
 */
export function toResponse({ action, content }: Answer, method: string): JsonObject {
  if (method === 'elicitation/create')
    return { action, ...(action === 'accept' && content !== undefined && { content }) };
  if (action === 'accept' && isObject(content)) return content;
  throw invalid(
    `cannot complete ${method}: the request was declined; handle the refusal or ask again`,
  );
}
