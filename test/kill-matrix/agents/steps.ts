import type { Agent, AgentContext, AgentEvent } from '../../../src/event/types.ts';
import type { JsonObject } from '../../../src/json.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// An agent of a user: each request to the model and each call of a tool is a durable step.

interface ModelMessage {
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly id?: string;
    readonly name?: string;
    readonly input?: JsonObject;
  }[];
}

const agent: MatrixAgent = {
  build: ({ url, tools }): Agent =>
    async function* (turn, ctx) {
      const messages: JsonObject[] = [{ role: 'user', content: JSON.stringify(turn.parts) }];
      for (let round = 0; ; round++) {
        const message = await ctx.step(`model ${round}`, ({ signal }) => {
          const names = tools.map(({ name, schema }) => ({ name, input_schema: schema }));
          return ask(url, { model: 'scripted', max_tokens: 100, messages, tools: names }, signal);
        });
        messages.push({ role: 'assistant', content: message.content });
        for (const { text } of message.content.filter(({ type }) => type === 'text'))
          for (const delta of text?.match(/\S+\s*/g) ?? [])
            yield { type: 'text.delta', id: `t${round}`, delta };
        const calls = message.content.filter(({ type }) => type === 'tool_use');
        if (calls.length === 0) return;
        const results: JsonObject[] = [];
        for (const { id = '', name = '', input = {} } of calls)
          results.push(yield* call({ id, name, input }, tools, ctx));
        messages.push({ role: 'user', content: results });
        await ctx.sleep(`pause ${round}`, 5);
      }
    },
};

async function* call(
  { id, name, input }: { readonly id: string; readonly name: string; readonly input: JsonObject },
  tools: Parameters<MatrixAgent['build']>[0]['tools'],
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, JsonObject, undefined> {
  yield { type: 'tool.called', callId: id, name, args: input };
  const tool = tools.find((each) => each.name === name);
  if (tool?.approval) await ctx.ask({ id: `${id}/ok`, kind: 'approval', callId: id });
  const outcome = await ctx.step(`call ${id}`, async ({ signal }) => {
    try {
      return { text: String(await tool?.run(input, signal)) };
    } catch (error) {
      return { text: String(error), is_error: true };
    }
  });
  const failure = { code: 'tool', message: outcome.text, retryable: false } as const;
  if ('is_error' in outcome) yield { type: 'tool.failed', callId: id, name, error: failure };
  else yield { type: 'tool.completed', callId: id, name, output: outcome.text };
  return { type: 'tool_result', tool_use_id: id, content: outcome.text };
}

async function ask(url: string, body: JsonObject, signal: AbortSignal): Promise<ModelMessage> {
  const response = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Error(`the model answered ${response.status}`);
  return (await response.json()) as ModelMessage;
}

export default agent;
