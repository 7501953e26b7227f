import { expect } from 'vitest';
import type { Answer, Ask } from '../../../src/ask.ts';
import { advance, checkLaws, normalizeAgent } from '../../../src/event/index.ts';
import type { AgentEvent } from '../../../src/event/types.ts';
import { contextFor, foldRun, newTask } from '../../contracts/agent.contract.ts';
import { numbered, turnOf } from '../../support/arbitraries.ts';
import { startModelServer, type ModelScript } from '../../support/model-server.ts';
import type { SceneTool } from './harness.ts';
import { add, only, type Stage, TEXT, whole } from './stage.ts';

/** A tool that a person must allow. */
export function approving(stage: Stage): void {
  const guarded = (log: string[]): SceneTool => ({
    ...add,
    approval: true,
    run: async ({ a }) => {
      log.push(`ran ${String(a)}`);
      return `sum ${Number(a) + 1}`;
    },
  });
  /** By what the conversation has, so that a run may start over. */
  const script: ModelScript = ({ body }) =>
    JSON.stringify(body).includes('call_add')
      ? { text: TEXT }
      : { tools: [stage.call('add', { a: 1 })] };
  const answering =
    (action: Answer['action'], asked: unknown[] = []): Ask =>
    async (request) => {
      asked.push(request);
      return { id: request.id, action };
    };

  stage.unless('approval')(
    'an approval is a question to a person; accepted, the tool runs',
    async () => {
      const [ran, asked]: [string[], unknown[]] = [[], []];
      const { events, end } = await stage.play(script, {
        tools: [guarded(ran)],
        ask: answering('accept', asked),
      });
      expect(asked).toMatchObject([{ kind: 'approval' }]);
      expect(only(events, 'input.required')).toHaveLength(1);
      expect(ran).toEqual(['ran 1']);
      expect(JSON.stringify(only(events, 'tool.completed'))).toContain('sum 2');
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
    },
  );

  stage.unless('approval')('declined, the tool does not run and its call has failed', async () => {
    const ran: string[] = [];
    const { events, end } = await stage.play(script, {
      tools: [guarded(ran)],
      ask: answering('decline'),
    });
    expect(ran).toEqual([]);
    expect(only(events, 'tool.completed')).toEqual([]);
    expect(only(events, 'tool.failed')).toHaveLength(1);
    expect(end).toMatchObject({ outcome: 'completed', text: whole });
  });

  stage.unless('approval')('put to sleep while it waits, it goes on with the answer', async () => {
    const ran: string[] = [];
    await using model = await startModelServer(script);
    const agent = await stage.harness.build({ url: model.url, tools: [guarded(ran)] });
    const steps = new Map<string, unknown>();
    const stop = contextFor(newTask(), undefined, steps);
    const first: AgentEvent[] = [];
    for await (const event of normalizeAgent(agent, { graceMs: stage.graceMs })(
      turnOf('m1'),
      stop.ctx,
    )) {
      first.push(event);
      if (event.type === 'input.required') stop.abort('suspended');
    }
    expect(checkLaws(first)).toEqual([]);
    expect(first.at(-1)).toMatchObject({ outcome: 'input-required' });
    const asleep = foldRun(newTask(), first);
    const answers = asleep.pending.map(({ id }): Answer => ({ id, action: 'accept' }));
    const turn = turnOf('m2', { parts: [], answers });
    const awake = advance(asleep, numbered({ type: 'turn.submitted', turn }, asleep.seq + 1));
    const { ctx } = contextFor(awake, undefined, steps);
    const second: AgentEvent[] = [];
    for await (const event of normalizeAgent(agent, { graceMs: stage.graceMs })(turnOf('m1'), ctx))
      second.push(event);
    expect(checkLaws(second, { calls: awake.calls })).toEqual([]);
    expect(only(second, 'input.required')).toEqual([]);
    expect(second.at(-1)).toMatchObject({ outcome: 'completed' });
    expect(ran).toEqual(['ran 1']);
    expect(model.calls).toHaveLength(stage.harness.startsOver ? 3 : 2);
  });
}
