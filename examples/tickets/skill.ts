import { DuolaneError } from 'duolane';
import type { Agent, AgentContext, AgentEvent } from 'duolane/event';
import type { ToolCall, ToolResult, ToolSource } from 'duolane/mcp';

/**
 * A tool as an A2A skill without a model: a message whose data part has the arguments of the tool
 * calls it. The id of the call is made of task and message, so that a run that is repeated after an
 * answer or a crash repeats the same call. Invalid arguments end the task as `rejected`.
 */
export const toolSkill = (source: ToolSource, name: string): Agent =>
  Object.assign(
    async function* (
      turn: Parameters<Agent>[0],
      ctx: AgentContext,
    ): AsyncGenerator<AgentEvent, void, undefined> {
      // The id of a message is unique for its sender only.
      const callId = `call_${turn.task}_${turn.messageId}`;
      const args = argumentsIn(turn) ?? {};
      yield { type: 'run.started' };
      const key = `result/${Buffer.from(turn.messageId).toString('hex').slice(0, 400)}`;
      const kept = await keptResult(ctx, key);
      if (kept) return yield* ending(kept, callId, name, ctx);
      if (!ctx.task.calls.some((call) => call.callId === callId))
        yield { type: 'tool.called', callId, name, args };
      let call: ToolCall = { id: callId, name, args };
      try {
        for (;;) {
          let answers: ToolCall['answers'];
          for await (const event of source.callTool(call, { signal: ctx.signal })) {
            if (event.type === 'input')
              answers = await Promise.all(event.requests.map((request) => ctx.ask(request)));
            if (event.type !== 'result') continue;
            const text = wordsOf(event.result);
            if (event.result.isError) throw new DuolaneError('tool', text);
            // Kept before it is shown: after a crash the person is not asked again.
            await ctx.storage?.set({ [key]: event.result });
            yield { type: 'tool.completed', callId, name, output: event.result.content };
            yield { type: 'text.delta', id: callId, delta: text };
            return;
          }
          call = { ...call, answers: [...(call.answers ?? []), ...(answers ?? [])] };
        }
      } catch (reason) {
        const error = DuolaneError.from(reason).toJSON();
        if (error.code !== 'tool' && error.code !== 'invalid') throw reason;
        yield { type: 'tool.failed', callId, name, error };
        yield { type: 'run.finished', outcome: 'rejected', text: error.message, error };
      }
    },
    { continues: true },
  );

/** The result that an earlier run of this turn has got. */
async function keptResult({ storage }: AgentContext, key: string): Promise<ToolResult | undefined> {
  for await (const [found, result] of storage?.list(key) ?? [])
    if (found === key) return result as ToolResult;
  return undefined;
}

/** What an earlier run has not shown of its result. */
function* ending(
  result: ToolResult,
  callId: string,
  name: string,
  { task }: AgentContext,
): Generator<AgentEvent, void, undefined> {
  if (task.calls.some((call) => call.callId === callId))
    yield { type: 'tool.completed', callId, name, output: result.content };
  const text = wordsOf(result);
  if (text.startsWith(task.text))
    yield { type: 'text.delta', id: callId, delta: text.slice(task.text.length) };
}

/** The first data part that is an object, if there is one. */
export function argumentsIn({ parts }: Parameters<Agent>[0]): ToolCall['args'] | undefined {
  for (const part of parts) {
    if ('data' in part && typeof part.data === 'object' && part.data !== null)
      return part.data as ToolCall['args'];
  }
  return undefined;
}

const wordsOf = ({ content }: ToolResult): string =>
  content
    .map((block) => block['text'])
    .filter((text) => typeof text === 'string')
    .join('\n');
