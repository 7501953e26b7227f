import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { AgentContext, AgentEvent, OpenCall } from '../../event/types.ts';
import { isObject } from '../../json.ts';
import type { ToolResult, ToolSource } from '../../mcp/types.ts';
import { toFailure } from './safe-read.ts';

/**
 * Makes one call of a source: its progress is yielded, what it asks is asked, and the call made
 * again with the answers, until it gives a result. Answers that the log already has are given at
 * once, so a call that an earlier run left open is finished here too.
 */
export async function* callTool(
  source: ToolSource,
  { callId, name, args }: OpenCall,
  ctx: AgentContext,
): AsyncGenerator<AgentEvent, ToolResult, undefined> {
  let answers: readonly Answer[] = ctx.task.answers.filter(({ id }) => id.startsWith(`${callId}/`));
  let state: string | undefined;
  // One dialled server may serve the tasks of many people.
  const { owner, task } = ctx.task;
  const caller = owner === undefined ? `task ${task}` : `owner ${owner}`;
  for (;;) {
    const call = {
      id: callId,
      name,
      args: isObject(args) ? args : {},
      ...(ctx.trace && { meta: { ...ctx.trace } }),
      answers,
      ...(state !== undefined && { state }),
    };
    let asked: readonly Answer[] | undefined;
    for await (const event of source.callTool(call, { signal: ctx.signal, caller })) {
      if (event.type === 'result') return event.result;
      if (event.type === 'progress') yield { ...event, type: 'tool.progress', callId };
      if (event.type !== 'input') continue;
      asked = await Promise.all(
        event.requests.map((request) => ctx.ask(request, { signal: ctx.signal })),
      );
      state = event.state;
    }
    if (!asked) throw new DuolaneError('malformed', `the tool ${name} ended without a result`);
    answers = [...answers, ...asked];
  }
}

/** How a call ended, as an event: a result that says `isError` is a failed call. */
export function resultEvent(
  { callId, name }: Pick<OpenCall, 'callId' | 'name'>,
  result: ToolResult,
): AgentEvent {
  if (!result.isError) return { type: 'tool.completed', callId, name, output: result.content };
  return { type: 'tool.failed', callId, name, error: toFailure('tool', wordsIn(result)) };
}

export const wordsIn = ({ content }: ToolResult): string =>
  content
    .map((block) => (typeof block['text'] === 'string' ? block['text'] : JSON.stringify(block)))
    .join('\n');
