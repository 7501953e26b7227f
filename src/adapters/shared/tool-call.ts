import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { answerBelongsTo } from '../../event/fold/entry-rules.ts';
import type { AgentContext, AgentEvent, OpenCall } from '../../event/types.ts';
import { isObject, omitUndefined } from '../../json.ts';
import { callToEnd, taskState } from '../../mcp/sources/call-to-end.ts';
import type { ToolResult, ToolSource } from '../../mcp/types.ts';
import { toFailure } from './tool-failure.ts';

/**
 * Calls a tool of a source until it returns a result: yields its progress, asks its questions, and
 * repeats the call with the answers. A call that an earlier run left open is finished here too:
 * `known` has the answers of the log. Pass them for such a call only, since a provider may give a
 * later call the same id, and its questions were not answered.
 */
export async function* callTool(
  source: ToolSource,
  { callId, name, args }: OpenCall,
  ctx: AgentContext,
  known: readonly Answer[] = [],
): AsyncGenerator<AgentEvent, ToolResult, undefined> {
  let answers = known.filter((answer) => answerBelongsTo(answer, ctx.task.answered ?? [], callId));
  let state: string | undefined;
  for (;;) {
    const end = yield* callToolOnce(source, { callId, name, args }, ctx, { answers, state });
    if ('result' in end) return end.result;
    answers = [...answers, ...(await askAll(end.requests, ctx))];
    state = end.state;
  }
}

/** How one request to a tool ends: with its result, or with questions to a person. */
export type ToolRound =
  | { readonly result: ToolResult }
  | { readonly requests: readonly InputRequest[]; readonly state?: string };

/** Calls a tool once, with the answers to the questions that it has asked so far. */
export async function* callToolOnce(
  source: ToolSource,
  { callId, name, args }: OpenCall,
  ctx: AgentContext,
  { answers, state }: { readonly answers: readonly Answer[]; readonly state: string | undefined },
): AsyncGenerator<AgentEvent, ToolRound, undefined> {
  if (!isObject(args ?? {})) return { result: invalidArguments(name) };
  // One dialled server may serve many callers; it keeps the state of each apart.
  const { owner, task } = ctx.task;
  const caller = owner === undefined ? `task ${task}` : `owner ${owner}`;
  const call = {
    id: callId,
    name,
    args: isObject(args) ? args : {},
    ...(ctx.trace && { meta: { ...ctx.trace } }),
    answers,
    ...omitUndefined({ state: state ?? (source.tasks && (await startedTask(callId, ctx))) }),
  };
  for await (const event of callToEnd(source, call, { signal: ctx.signal, caller, owner })) {
    if (event.type === 'result') return { result: event.result };
    if (event.type === 'progress') yield { ...event, type: 'tool.progress', callId };
    if (event.type === 'task') {
      const { taskId } = event.task;
      if (STORABLE.test(callId)) await ctx.storage?.set({ [TASK + callId]: taskId });
      // The entry names the task: readers of the log find both by one id.
      yield { type: 'tool.progress', callId, message: `task ${taskId}`, data: { taskId } };
    }
    if (event.type !== 'input') continue;
    const { requests, state: next } = event;
    return { requests, ...(next !== undefined && { state: next }) };
  }
  throw new DuolaneError('malformed', `the tool "${name}" ended without a result: expected one`);
}

/**
 * The result of a call whose arguments are not an object. The message of the model was cut off at
 * its limit, or its JSON is invalid: without arguments the call could do something else.
 */
export const invalidArguments = (name: string): ToolResult => ({
  content: [
    {
      type: 'text',
      text: `The call of ${name} was not made: its arguments are incomplete or not a JSON object. Call it again with all of them.`,
    },
  ],
  isError: true,
});

/** The key of the MCP task of a call among the values of its run. */
const TASK = 'mcp-task/';

/** The ids that a key may contain. */
const STORABLE = /^[\x21-\x7e]{1,400}$/;

/** The state of a call that an earlier run made into a task: this run follows the same task. */
async function startedTask(callId: string, ctx: AgentContext): Promise<string | undefined> {
  // A provider may repeat an id: only a call that is still open may have a task.
  if (!ctx.task.calls.some((call) => call.callId === callId)) return undefined;
  if (!STORABLE.test(callId)) return undefined;
  const key = TASK + callId;
  for await (const [found, taskId] of ctx.storage?.list(key) ?? [])
    if (found === key) return taskState(String(taskId));
  return undefined;
}

/** Asks the questions of a tool, all at the same time. */
export const askAll = (
  requests: readonly InputRequest[],
  { ask, signal }: AgentContext,
): Promise<readonly Answer[]> => Promise.all(requests.map((request) => ask(request, { signal })));

/** The event for the end of a call; a result with `isError` is a failed call. */
export function resultEvent(
  { callId, name }: Pick<OpenCall, 'callId' | 'name'>,
  result: ToolResult,
): AgentEvent {
  if (!result.isError) return { type: 'tool.completed', callId, name, output: result.content };
  return { type: 'tool.failed', callId, name, error: toFailure('tool', resultText(result)) };
}

/** A tool result as text; blocks without text become JSON. */
export const resultText = ({ content }: ToolResult): string =>
  content
    .map((block) => (typeof block['text'] === 'string' ? block['text'] : JSON.stringify(block)))
    .join('\n');
