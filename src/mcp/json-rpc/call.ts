import { randomUUID } from 'node:crypto';
import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import { errorResult } from '../result.ts';
import type { ToolCall, ToolEvent, ToolResult, ToolSource } from '../types.ts';
import type { RequestContext } from './methods.ts';

/** Where an agent CLI puts the model's own id of the call; our own ends do the same. */
export const CALL_ID = 'claudecode/toolUseId';

/** `tools/call`: relays what comes before the result, gets answers for what the tool asks. */
export async function serveCall(
  source: ToolSource,
  params: JsonObject,
  context: RequestContext,
): Promise<ToolResult> {
  const first = toCall(params);
  const answers: Answer[] = [];
  let call = first;
  for (;;) {
    const last = await runOnce(source, call, context);
    if (last.type === 'result') return last.result;
    const fresh = last.requests.filter(({ id }) => !answers.some((answer) => answer.id === id));
    if (fresh.length === 0)
      throw new DuolaneError('internal', `${call.name} asks again for what was answered`);
    const ask = context.ask ?? elicit(context);
    if (!ask) return errorResult(cannotAsk(fresh));
    answers.push(
      ...(await Promise.all(fresh.map((request) => ask(request, { signal: context.signal })))),
    );
    call = {
      ...first,
      answers: [...answers],
      ...(last.state !== undefined && { state: last.state }),
    };
  }
}

function toCall({ name, arguments: args = {}, _meta: meta }: JsonObject): ToolCall {
  if (typeof name !== 'string')
    throw new DuolaneError('invalid', 'Invalid params: name must be a string');
  if (!isObject(args))
    throw new DuolaneError('invalid', 'Invalid params: arguments must be an object');
  const known = isObject(meta) ? meta : undefined;
  const id = known?.[CALL_ID];
  return {
    id: typeof id === 'string' ? id : randomUUID(),
    name,
    args,
    ...(known && { meta: known }),
  };
}

type LastEvent = Extract<ToolEvent, { type: 'result' | 'input' }>;

async function runOnce(
  source: ToolSource,
  call: ToolCall,
  { signal, notify, log }: RequestContext,
): Promise<LastEvent> {
  const token = call.meta?.['progressToken'];
  for await (const event of source.callTool(call, { signal })) {
    switch (event.type) {
      case 'result':
      case 'input':
        return event;
      case 'progress': {
        const { type: _, ...progress } = event;
        if (token !== undefined)
          await notify('notifications/progress', { progressToken: token, ...progress });
        break;
      }
      case 'log': {
        const { type: _, ...entry } = event;
        await log(entry);
        break;
      }
      case 'partial': // no standard form on JSON-RPC; the result is whole without it
        break;
    }
  }
  throw new DuolaneError('internal', `the call of ${call.name} ended without a result`);
}

/** Asks whoever called, if that client can be asked. */
function elicit({ client, request }: RequestContext): Ask | undefined {
  if (!isObject(client.capabilities['elicitation'])) return undefined;
  return async ({ id, message, schema }, { signal } = {}) => {
    const result = await request(
      'elicitation/create',
      {
        message: message ?? 'The tool needs your answer.',
        requestedSchema: schema ?? { type: 'object', properties: {} },
      },
      signal ? { signal } : {},
    );
    const { action, content } = result;
    if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
      throw new DuolaneError('malformed', 'the client answered an elicitation without an action');
    return { id, action, ...(content !== undefined && { content }) };
  };
}

const cannotAsk = (requests: readonly InputRequest[]): DuolaneError =>
  new DuolaneError(
    'unsupported',
    `the tool needs an answer (${requests.map(({ id, message }) => message ?? id).join('; ')}) ` +
      'and nobody can be asked here: offer it with `ask`, or use a client with elicitation',
  );
