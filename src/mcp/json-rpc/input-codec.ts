import { type Answer, elicitationKind, type InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** What a server may ask of a client, and what the client must have said that it can. */
export const CAPABILITY: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
};

/** Says in `_meta` what a question is, where its form does not. */
const KIND = 'duolane/kind';
const KINDS = ['approval', 'question', 'auth'] as const;

/** A question in the wire's words. */
export interface WireInput {
  readonly method: string;
  readonly params: JsonObject;
}

/** One that came from another server goes on as it came. */
export function toWire({ kind, message, schema, data }: InputRequest): WireInput {
  const { method, params } = isObject(data) ? data : {};
  if (typeof method === 'string' && method in CAPABILITY && isObject(params))
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

export function fromWire(callId: string, key: string, value: unknown): InputRequest {
  const { method, params = {} } = isObject(value) ? value : {};
  if (typeof method !== 'string' || !isObject(params))
    throw new DuolaneError('malformed', `the server asks for ${key} without saying how`);
  const { message, requestedSchema, mode, _meta: meta } = params;
  const said = isObject(meta) ? KINDS.find((kind) => kind === meta[KIND]) : undefined;
  const elicits = method === 'elicitation/create';
  return {
    id: `${callId}/${key}`,
    callId,
    kind: elicits ? (said ?? elicitationKind(mode, requestedSchema)) : 'question',
    ...(typeof message === 'string' && { message }),
    ...(isObject(requestedSchema) && { schema: requestedSchema }),
    data: { method, params },
  };
}

/** The key of a question on the wire: its id without the call's, which the next round may not know. */
export const keyOf = (callId: string, { id }: Pick<InputRequest, 'id'>): string =>
  id.startsWith(`${callId}/`) ? id.slice(callId.length + 1) : id;

/** What a client answered; the result of anything but an elicitation is the content of a yes. */
export function toAnswer(id: string, response: unknown): Answer {
  if (!isObject(response))
    throw new DuolaneError('malformed', `the answer to ${id} is not an object`);
  const { action, content } = response;
  if (action === undefined) return { id, action: 'accept', content: response };
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
    throw new DuolaneError('malformed', `the answer to ${id} has no known action`);
  return { id, action, ...(content !== undefined && { content }) };
}

/** An answer in the words of the method that asked. */
export function toResponse({ action, content }: Answer, method: string): JsonObject {
  if (method === 'elicitation/create')
    return { action, ...(action === 'accept' && content !== undefined && { content }) };
  if (action === 'accept' && isObject(content)) return content;
  throw new DuolaneError('invalid', `${method} was declined`);
}
