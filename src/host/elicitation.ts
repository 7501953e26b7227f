import type { Ask } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';
import { textOf } from './text.ts';
import type { ControlAnswer, ControlRequest } from '../wire/control.ts';

/** A question of an MCP server that the CLI dialled. */
export interface ElicitationRequest {
  readonly serverName: string;
  readonly message: string;
  readonly mode?: 'form' | 'url';
  readonly url?: string;
  readonly elicitationId?: string;
  readonly requestedSchema?: JsonObject;
  readonly title?: string;
}

export interface ElicitationResult {
  readonly action: 'accept' | 'decline' | 'cancel';
  readonly content?: JsonObject;
}

export type OnElicitation = (
  request: ElicitationRequest,
  options: { readonly signal: AbortSignal },
) => Promise<ElicitationResult> | ElicitationResult;

const ACTIONS: readonly unknown[] = ['accept', 'decline', 'cancel'];

/** Answers `elicitation`: by callback, else by `ask`, else by a decline, as the official SDK does. */
export async function elicit(
  request: ControlRequest,
  context: { readonly id: string; readonly signal: AbortSignal },
  options: { readonly onElicitation?: OnElicitation; readonly ask?: Ask },
): Promise<ControlAnswer> {
  const question = elicitationOf(request);
  const { signal } = context;
  if (options.onElicitation) {
    const answer: unknown = await options.onElicitation(question, { signal });
    if (isObject(answer) && ACTIONS.includes(answer['action']))
      return { ok: true, response: answer };
    throw new DuolaneError(
      'invalid',
      `onElicitation must give { action: 'accept' | 'decline' | 'cancel', content? }`,
    );
  }
  if (!options.ask) return { ok: true, response: { action: 'decline' } };
  const { action, content } = await options.ask(
    {
      id: `${question.elicitationId ?? context.id}/elicitation`,
      kind: question.mode === 'url' ? 'auth' : 'question',
      message: question.message,
      ...(question.requestedSchema && { schema: question.requestedSchema }),
      ...(question.url !== undefined && { data: { url: question.url } }),
    },
    { signal },
  );
  return { ok: true, response: { action, ...(isObject(content) && { content }) } };
}

function elicitationOf(request: ControlRequest): ElicitationRequest {
  const { mode, url, elicitation_id: id, requested_schema: schema, title } = request;
  return {
    serverName: String(request['mcp_server_name']),
    message: textOf(request['message']),
    ...((mode === 'form' || mode === 'url') && { mode }),
    ...(typeof url === 'string' && { url }),
    ...(typeof id === 'string' && { elicitationId: id }),
    ...(isObject(schema) && { requestedSchema: schema }),
    ...(typeof title === 'string' && { title }),
  };
}
