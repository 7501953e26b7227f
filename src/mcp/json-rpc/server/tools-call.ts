import { randomUUID } from 'node:crypto';
import type { InputRequest } from '../../../ask.ts';
import { DuolaneError, invalid, unsupported } from '../../../errors.ts';
import { isObject, type JsonObject } from '../../../json.ts';
import { runnerOf } from '../../registry/registry.ts';
import { errorResult } from '../../registry/tool-result.ts';
import type { LastEvent } from '../../registry/run-tool.ts';
import type { ToolCall, ToolEvent, ToolSource } from '../../types.ts';
import { askInRounds } from '../../sources/ask-rounds.ts';
import { digest, obtainAnswers, readRound } from './ask-client.ts';
import { CALL_ID, withoutConnectionMeta } from '../protocol-versions.ts';
import type { RequestContext } from './methods.ts';
import { startedTask, supportsTasks } from './task-methods.ts';
import { PARTIAL_METHOD, wantsPartial } from '../partial-results.ts';

/**
 * Handles `tools/call`: relays the events before the result. The questions of the tool are answered
 * by `ask`, by a client of a session, or by an `input_required` result after which a stateless
 * client repeats the call.
 */
export async function serveCall(
  source: ToolSource,
  params: JsonObject,
  context: RequestContext,
): Promise<JsonObject> {
  const asked = toCall(params);
  const first = context.client.stateless ? resumed(asked, params, context) : asked;
  let call = first;
  // With `ask`, a person must decide. The questions of a task go to the client, so such an offer
  // creates no tasks.
  const task = source.tasks && !context.ask && supportsTasks(params, context);
  const last = await runOnce(source, call, context, task);
  // Most calls ask nothing: they return here, without the cost of the rounds.
  if (last.type === 'result') return last.result;
  if (last.type === 'task') return startedTask(last.task, source.tasks!, context);
  const of = digest('tools/call', params);
  const again = async ({ requests, state }: Extract<LastEvent, { type: 'input' }>) => {
    const { id, answers = [] } = call;
    const fresh = requests.filter(
      ({ id: asked }) => !answers.some((answer) => answer.id === asked),
    );
    if (fresh.length === 0) throw askedAgain(call);
    const obtained = await obtainAnswers({ of, id, answers, state }, fresh, context);
    if (!obtained) return { result: errorResult(cannotAsk(fresh)) };
    if ('result' in obtained) return obtained;
    call = { ...first, answers: obtained.answers, ...(state !== undefined && { state }) };
    const next = await runOnce(source, call, context, task);
    if (next.type === 'task') return { result: startedTask(next.task, source.tasks!, context) };
    return next.type === 'result' ? next : { questions: next };
  };
  return askInRounds<JsonObject, typeof last>({ questions: last }, again, () => askedAgain(call));
}

const askedAgain = ({ name }: ToolCall): DuolaneError =>
  new DuolaneError('internal', `tool "${name}" asked again for what was answered`);

function toCall({ name, arguments: args = {}, _meta: meta }: JsonObject): ToolCall {
  if (typeof name !== 'string') throw invalid('invalid params: name must be a string');
  if (!isObject(args)) throw invalid('invalid params: arguments must be an object');
  const known = isObject(meta) ? withoutConnectionMeta(meta) : undefined;
  const id = known?.[CALL_ID];
  return {
    id: typeof id === 'string' ? id : randomUUID(),
    name,
    args,
    ...(known && { meta: known }),
  };
}

/** Adds what earlier rounds brought, as the client returned it. */
function resumed(call: ToolCall, params: JsonObject, context: RequestContext): ToolCall {
  const { id, answers, state } = readRound('tools/call', params, call.id, context);
  return {
    ...call,
    id,
    ...(answers.length > 0 && { answers }),
    ...(state !== undefined && { state }),
  };
}

/** The last event of a call that may have become a task. */
type CallEnd = LastEvent | Extract<ToolEvent, { type: 'task' }>;

function runOnce(
  source: ToolSource,
  call: ToolCall,
  context: RequestContext,
  task: boolean | undefined,
): Promise<CallEnd> {
  const runner = runnerOf(source);
  return runner
    ? runner.run(call, context.cancellation, (event) => relay(event, call, context))
    : lastOf(source, call, context, task);
}

/**
 * Runs a call of any source and relays its events. Throws if the source ends without a last event.
 */
async function lastOf(
  source: ToolSource,
  call: ToolCall,
  context: RequestContext,
  task: boolean | undefined,
): Promise<CallEnd> {
  const { caller, cancellation, owner } = context;
  const { signal } = cancellation;
  for await (const event of source.callTool(call, { signal, caller, task, owner })) {
    if (event.type === 'result' || event.type === 'input') return event;
    if (event.type === 'task' && task) return event;
    await relay(event, call, context);
  }
  throw new DuolaneError('internal', `the call of tool "${call.name}" ended without a result`);
}

/** Sends the client an event before the last one, if JSON-RPC has a form for it. */
async function relay(
  { type, ...rest }: ToolEvent,
  { meta }: ToolCall,
  { client, notify, log }: RequestContext,
): Promise<void> {
  const token = meta?.['progressToken'];
  if (type === 'log') await log(rest as Parameters<typeof log>[0]);
  else if (type === 'progress' && token !== undefined)
    await notify('notifications/progress', { progressToken: token, ...rest });
  else if (type === 'partial' && token !== undefined && wantsPartial(client.capabilities))
    await notify(PARTIAL_METHOD, { progressToken: token, ...rest });
}

const cannotAsk = (requests: readonly InputRequest[]): DuolaneError =>
  unsupported(
    `the tool needs an answer (${requests.map(({ id, message }) => message ?? id).join('; ')}) ` +
      'but no one can be asked; offer it with `ask`, or use a client with elicitation',
  );
