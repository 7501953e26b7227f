import { expect, test } from 'vitest';
import { TaskFold, type A2AStreamEvent } from '../../../src/a2a/index.ts';
import { toA2A } from '../../../src/serve/index.ts';
import { memoryLog } from '../../../src/task/index.ts';
import { all, Caller, shape } from '../../a2a/support.ts';
import { startModelServer } from '../../support/model-server.ts';
import { add, broken, joined, only, type Stage, TEXT, whole } from './stage.ts';

/** What an agent says and does: text, reasoning, tools, an answer in a schema. */
export function saying(stage: Stage): void {
  test('text: streamed as deltas, once, with its usage', async () => {
    const { events, end } = await stage.play([{ text: TEXT, usage: { input: 7, output: 3 } }]);
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    expect(joined(events, 'text.delta')).toBe(whole);
    expect(only(events, 'text.delta').length).toBeGreaterThan(1);
    expect(end.usage).toMatchObject({ inputTokens: 7, outputTokens: 3 });
    expect(only(events, 'step.finished')).toHaveLength(1);
  });

  stage.unless('reasoning')('reasoning comes before the text and is not part of it', async () => {
    const { events, end } = await stage.play([{ thinking: ['Hm, ', 'so.'], text: TEXT }]);
    expect(joined(events, 'reasoning.delta')).toBe('Hm, so.');
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    const types = events.map(({ type }) => type);
    expect(types.indexOf('reasoning.delta')).toBeLessThan(types.indexOf('text.delta'));
  });

  test('a tool: called with its arguments, its result returned, and the model continues', async () => {
    const replies = [
      { text: 'I add. ', tools: [stage.call('add', { a: 1 })], usage: { input: 10, output: 5 } },
      { text: TEXT, usage: { input: 20, output: 6 } },
    ];
    const { events, end, model } = await stage.play(replies, { tools: [add] });
    expect(end).toMatchObject({ outcome: 'completed', text: `I add. ${whole}` });
    expect(end.usage).toMatchObject({ inputTokens: 30, outputTokens: 11 });
    expect(only(events, 'step.finished')).toHaveLength(2);
    const [called] = only(events, 'tool.called');
    expect(called).toMatchObject({ name: stage.toolName('add'), args: { a: 1 } });
    const [completed] = only(events, 'tool.completed');
    expect(completed).toMatchObject({ callId: called?.callId, name: stage.toolName('add') });
    expect(JSON.stringify(completed?.output)).toContain('sum 2');
    expect(JSON.stringify(model.calls[1]?.body)).toContain('sum 2');
  });

  stage.unless('arguments')('the arguments of a call come as the model writes them', async () => {
    const tools = [stage.call('add', { a: 1234567 })];
    const { events } = await stage.play([{ tools }, { text: TEXT }], { tools: [add] });
    expect(only(events, 'tool.started')).toMatchObject([{ name: stage.toolName('add') }]);
    const pieces = only(events, 'tool.args').map(({ delta }) => delta);
    expect(pieces.length).toBeGreaterThan(1);
    expect(JSON.parse(pieces.join(''))).toEqual({ a: 1234567 });
  });

  stage.unless('tool error')(
    'a tool that throws is a failed call, and the run goes on',
    async () => {
      const replies = [{ tools: [stage.call('broken', { a: 1 })] }, { text: TEXT }];
      const { events, end } = await stage.play(replies, { tools: [broken] });
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      expect(only(events, 'tool.completed')).toEqual([]);
      const [failed] = only(events, 'tool.failed');
      expect(failed).toMatchObject({ name: stage.toolName('broken'), error: { code: 'tool' } });
      expect(failed?.error.message).toContain(stage.harness.toolError ?? 'the disk is full');
    },
  );

  test('tools in parallel: each call keeps its own arguments and result', async () => {
    const calls = [stage.call('add', { a: 1 }, 'call_x'), stage.call('add', { a: 40 }, 'call_y')];
    const { events, end } = await stage.play([{ tools: calls }, { text: TEXT }], { tools: [add] });
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    const answers = only(events, 'tool.called').map(({ callId, args }) => {
      const done = only(events, 'tool.completed').find((event) => event.callId === callId);
      return [args, JSON.stringify(done?.output)];
    });
    expect(answers).toEqual([
      [{ a: 1 }, expect.stringContaining('sum 2')],
      [{ a: 40 }, expect.stringContaining('sum 41')],
    ]);
  });

  stage.unless('structured')('structured output is the output of the run', async () => {
    const schema = {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    };
    const { structured = (value) => [{ text: JSON.stringify(value) }] } = stage.harness;
    const { end } = await stage.play(structured({ city: 'Paris' }), { output: schema });
    expect(end).toMatchObject({ outcome: 'completed', output: { city: 'Paris' } });
  });

  test.each(['status', 'artifact'] as const)(
    'served over A2A, its text as %s: the contract holds, and the client has the whole text',
    async (text) => {
      await using model = await startModelServer([
        { text: 'I add. ', tools: [stage.call('add', { a: 1 })] },
        { text: TEXT },
      ]);
      const agent = await stage.harness.build({ url: model.url, tools: [add] });
      await using served = await toA2A(agent, { text, log: memoryLog() });
      const seen = await all(new Caller(served.url).say('What is it?'));
      const fold = new TaskFold();
      for (const { result } of seen) fold.apply(result as unknown as A2AStreamEvent);
      expect(fold.problems).toEqual([]);
      expect(fold.text).toBe(`I add. ${whole}`);
      expect(shape(seen).slice(0, 2)).toEqual(['task', 'working']);
      expect(shape(seen).at(-1)).toBe('completed');
      expect(shape(seen).filter((word) => word === 'completed')).toHaveLength(1);
    },
  );

  stage.unless('mcp error')('an MCP result that says isError is a failed call', async () => {
    const content = [{ type: 'text', text: 'no such file' }];
    const failing = { ...add, run: async () => ({ isError: true, content }) };
    const replies = [{ tools: [stage.call('add', { a: 1 })] }, { text: TEXT }];
    const { events, end } = await stage.play(replies, { tools: [failing] });
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
    expect(only(events, 'tool.completed')).toEqual([]);
    const [failed] = only(events, 'tool.failed');
    expect(failed).toMatchObject({ name: stage.toolName('add'), error: { code: 'tool' } });
    expect(failed?.error.message).toContain('no such file');
  });
}
