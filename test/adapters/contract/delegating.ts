import { expect, test } from 'vitest';
import { startModelServer, type ModelReply } from '../../support/model-server.ts';
import type { AgentEvent } from '../../../src/event/types.ts';
import { add, joined, only, type Stage, TEXT, whole } from './stage.ts';
import { closeLimitMs, fastest } from './stopping.ts';

const HAND_OVER: ModelReply = {
  tools: [{ id: 'call_helper', name: 'helper', input: { prompt: 'Find it.' } }],
};

/** Streamed or not, it never comes to its end. */
const UNFINISHED: ModelReply = { text: ['It ', 'never ends'], fail: { after: 3, how: 'hang' } };

/** An agent that hands work to another: who said what stays clear, and a cancel reaches the bottom. */
export function delegating(stage: Stage): void {
  const { subAgent } = stage.harness;
  if (!subAgent) return;
  const { build, handOver = HAND_OVER, toolName = (plain) => plain } = subAgent;
  const delegated: ModelReply = { text: 'I ask. ', ...handOver, usage: { input: 1, output: 1 } };
  const isInner = ({ path }: AgentEvent): boolean => path !== undefined && path.length > 0;

  test('the text of a sub-agent is not part of the text of the run', async () => {
    const { events, end, model } = await stage.play(
      [
        delegated,
        { text: ['Found ', 'it.'], usage: { input: 10, output: 10 } },
        { text: TEXT, usage: { input: 100, output: 100 } },
      ],
      { build },
    );
    expect(end).toMatchObject({ outcome: 'completed', text: `I ask. ${whole}` });
    const outer = events.filter((event) => !isInner(event));
    expect(joined(outer, 'text.delta')).toBe(`I ask. ${whole}`);
    const calls = only(outer, 'tool.called');
    expect(calls).toHaveLength(1);
    expect(only(outer, 'tool.completed')).toMatchObject([{ callId: calls[0]?.callId }]);
    expect(JSON.stringify(only(outer, 'tool.completed')[0]?.output)).toContain('Found it.');
    expect(model.calls).toHaveLength(3);
    if (subAgent.unheard !== undefined) return;
    const inner = events.filter(isInner);
    expect(joined(inner, 'text.delta')).toBe('Found it.');
    expect(only(inner, 'text.delta').length).toBeGreaterThan(1);
    const used = subAgent.uncounted === undefined ? 111 : 101;
    expect(end.usage).toMatchObject({ inputTokens: used, outputTokens: used });
  });

  const heard: typeof test | (() => void) = subAgent.unheard === undefined ? test : () => undefined;
  heard('the tools of a sub-agent are its own', async () => {
    const inner = { id: 'call_inner', name: toolName('add'), input: { a: 1 } };
    const { events, end } = await stage.play(
      [delegated, { tools: [inner] }, { text: 'Found it.' }, { text: TEXT }],
      { build, tools: [add] },
    );
    expect(end).toMatchObject({ outcome: 'completed', text: `I ask. ${whole}` });
    const called = only(events, 'tool.called').find(({ name }) => name === inner.name);
    expect(called).toMatchObject({ args: { a: 1 } });
    expect(called && isInner(called)).toBe(true);
    const done = only(events, 'tool.completed').find(({ callId }) => callId === called?.callId);
    expect(JSON.stringify(done?.output)).toContain('sum 2');
  });

  test('a cancel during a sub-agent reaches its model', async () => {
    const stopMs = await fastest(async (started) => {
      let talking = (): void => {};
      const heard = new Promise<void>((resolve) => (talking = resolve));
      await using model = await startModelServer(async (_request, index) => {
        if (index === 0) return delegated;
        setTimeout(talking, 50);
        return UNFINISHED;
      });
      let stop = (): void => {};
      const played = stage.playOn(model, { build, each: (_event, abort) => void (stop = abort) });
      await heard;
      started(model.calls[1]?.closed);
      stop();
      const { end } = await played;
      expect(end).toMatchObject({ outcome: 'canceled' });
      expect(await model.calls[1]?.closed).toBe('dropped');
    });
    expect(stopMs).toBeLessThan(await closeLimitMs());
  });
}
