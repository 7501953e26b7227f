import { type Ask, elicitationKind, type InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asObject, asString, isObject, type JsonObject, omitUndefined } from '../../json.ts';
import type { ControlResponse, ControlRequest } from '../../wire/control-peer.ts';

/** A question of an MCP server to a person. The server is one of the CLI or one in this process. */
export interface ElicitationRequest {
  readonly serverName: string;
  readonly message: string;
  readonly mode?: 'form' | 'url';
  readonly url?: string;
  readonly elicitationId?: string;
  readonly requestedSchema?: JsonObject;
  readonly title?: string;
  readonly displayName?: string;
  readonly description?: string;
}

export interface ElicitationResult {
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: JsonObject;
}

export type OnElicitation = (
  request: ElicitationRequest,
  options: {
    readonly signal: AbortSignal;
    /** The id of the CLI's request; the id of the question for a server in this process. */
    readonly requestId: string;
  },
) => Promise<ElicitationResult> | ElicitationResult;

const ELICIT = 'elicitation/create';
const ACTIONS: readonly unknown[] = ['accept', 'decline', 'cancel'];

/**
 * Answers `elicitation` with the callback, else with `ask`, else with a decline, as the official
 * SDK does.
 */
export async function answerElicitation(
  request: ControlRequest,
  context: { readonly id: string; readonly signal: AbortSignal },
  options: { readonly onElicitation: OnElicitation | undefined; readonly ask: Ask | undefined },
): Promise<ControlResponse> {
  const question = elicitationOf(request);
  const { id, signal } = context;
  if (options.onElicitation)
    return { ok: true, response: await called(options.onElicitation, question, id, signal) };
  if (!options.ask) return { ok: true, response: { action: 'decline' } };
  const { serverName, elicitationId, mode, url, requestedSchema: schema } = question;
  const { action, content } = await options.ask(
    omitUndefined<InputRequest>({
      // The server chooses `elicitationId`: alone it could be the id of a call of another server.
      id: `elicitation:${serverName}/${elicitationId ?? id}`,
      kind: elicitationKind(mode, schema),
      // The person must know who gets the answer.
      message: `The tool server "${serverName}" asks: ${question.message}`,
      schema,
      data: url === undefined ? undefined : { url },
    }),
    { signal },
  );
  return { ok: true, response: { action, ...(isObject(content) && { content }) } };
}

/**
 * `onElicitation` as the `ask` of an in-process server. The question does not pass through the CLI.
 */
export function askBy(onElicitation: OnElicitation, serverName: string): Ask {
  return async ({ id, message, schema, data }, { signal = new AbortController().signal } = {}) => {
    const { method = ELICIT, params = {} } = asObject(data);
    if (method !== ELICIT || !isObject(params))
      throw new DuolaneError(
        'unsupported',
        `onElicitation cannot answer "${asString(method)}": expected ${ELICIT}`,
      );
    const question = elicitationOf({
      subtype: 'elicitation',
      mcp_server_name: serverName,
      message: message ?? params['message'],
      mode: params['mode'],
      url: params['url'],
      elicitation_id: params['elicitationId'],
      requested_schema: schema ?? params['requestedSchema'],
    });
    const { action, content } = await called(onElicitation, question, id, signal);
    return { id, action, ...(content !== undefined && { content }) };
  };
}

async function called(
  onElicitation: OnElicitation,
  question: ElicitationRequest,
  requestId: string,
  signal: AbortSignal,
): Promise<ElicitationResult> {
  const answer: unknown = await onElicitation(question, { signal, requestId });
  if (isObject(answer) && ACTIONS.includes(answer['action']))
    return answer as unknown as ElicitationResult;
  throw new DuolaneError(
    'invalid',
    `onElicitation must return { action: 'accept' | 'decline' | 'cancel', content? }`,
  );
}

function elicitationOf(request: ControlRequest): ElicitationRequest {
  const { mode, url, elicitation_id: id, requested_schema: schema, title } = request;
  const { display_name: displayName, description } = request;
  return omitUndefined<ElicitationRequest>({
    serverName: String(request['mcp_server_name']),
    message: asString(request['message']),
    mode: mode === 'form' || mode === 'url' ? mode : undefined,
    url: typeof url === 'string' ? url : undefined,
    elicitationId: typeof id === 'string' ? id : undefined,
    requestedSchema: isObject(schema) ? schema : undefined,
    title: typeof title === 'string' ? title : undefined,
    displayName: typeof displayName === 'string' ? displayName : undefined,
    description: typeof description === 'string' ? description : undefined,
  });
}
