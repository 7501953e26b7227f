import fc from 'fast-check';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { contextFor } from '../../../test/contracts/agent.contract.ts';
import { turnOf } from '../../../test/support/arbitraries.ts';
import { verifies } from '../../../test/verifies.ts';
import { DuolaneError } from '../../errors.ts';
import { checkLaws } from '../check-laws.ts';
import { normalizeAgent } from '../run/normalize-agent.ts';
import { httpStatusError } from './model-error.ts';
import { withRetry } from './with-retry.ts';
import type { Agent, AgentEvent } from '../types.ts';

beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(0)); // no spread of the delays
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const say = (delta: string, id = 't'): AgentEvent => ({ type: 'text.delta', id, delta });
const failed = (status: number): AgentEvent => ({
  type: 'run.finished',
  outcome: 'failed',
  text: '',
  error: httpStatusError(status, 'scripted').toJSON(),
});

/** An agent whose attempts are given: events, then perhaps a throw. */
function attempts(...scripts: readonly (readonly (AgentEvent | Error)[])[]): {
  readonly agent: Agent;
  readonly calls: () => number;
} {
  let calls = 0;
  const agent: Agent = async function* () {
    for (const step of scripts[Math.min(calls++, scripts.length - 1)] ?? []) {
      if (step instanceof Error) throw step;
      yield step;
    }
  };
  return { agent, calls: () => calls };
}

async function collect(agent: Agent): Promise<{
  readonly events: readonly AgentEvent[];
  readonly thrown: unknown;
}> {
  const events: AgentEvent[] = [];
  try {
    for await (const event of agent(turnOf('m1'), contextFor().ctx)) events.push(event);
    return { events, thrown: undefined };
  } catch (thrown) {
    return { events, thrown };
  }
}

const types = (events: readonly AgentEvent[]): readonly string[] => events.map(({ type }) => type);

verifies(
  ['S199', 'S201', 'S202'],
  'three attempts with waits of 2 s and 4 s, then the failure itself',
  async () => {
    vi.useFakeTimers();
    const error = httpStatusError(503, 'scripted');
    const { agent, calls } = attempts([error]);
    const times: number[] = [];
    const start = Date.now();
    const counting: Agent = (turn, ctx) => {
      times.push(Date.now() - start);
      return agent(turn, ctx);
    };
    const run = collect(withRetry(counting));
    await vi.advanceTimersByTimeAsync(60_000);
    const { events, thrown } = await run;
    expect(times).toEqual([0, 2000, 6000]);
    expect(calls()).toBe(3);
    expect(events).toMatchObject([
      { type: 'retry', attempt: 1, delayMs: 2000, error: { status: 503 } },
      { type: 'retry', attempt: 2, delayMs: 4000 },
    ]);
    expect(thrown).toBe(error);
  },
);

verifies(['S200', 'S203'], '429 and 5xx are retried, other 4xx fail immediately', async () => {
  for (const status of [429, 500, 502, 503, 529]) {
    const { agent, calls } = attempts([failed(status)]);
    const { events } = await collect(withRetry(agent, { baseMs: 0 }));
    expect([status, calls(), types(events)]).toEqual([
      status,
      3,
      ['retry', 'retry', 'run.finished'],
    ]);
  }
  for (const status of [400, 401, 403, 404, 422]) {
    const { agent, calls } = attempts([failed(status)]);
    const { events } = await collect(withRetry(agent, { baseMs: 0 }));
    expect([status, calls(), types(events)]).toEqual([status, 1, ['run.finished']]);
  }
});

verifies('S204', 'a success ends the attempts', async () => {
  const { agent, calls } = attempts([failed(429)], [say('well')]);
  const { events } = await collect(withRetry(agent, { baseMs: 0 }));
  expect(types(events)).toEqual(['retry', 'text.delta']);
  expect(calls()).toBe(2);
});

verifies('S206', 'what a failed attempt said is void, and its half call closed', async () => {
  const started: AgentEvent = { type: 'tool.started', callId: 'c', name: 'add' };
  const args: AgentEvent = { type: 'tool.args', callId: 'c', delta: '{"a":' };
  const half = [{ type: 'step.started', step: 1 } as const, say('a'), say('b'), say('c')];
  const { agent } = attempts(
    [...half, started, args, new DuolaneError('network', 'cut')],
    [{ type: 'step.started', step: 1 }, say('whole'), { ...started }, { ...args, delta: '{}' }],
  );
  const { events } = await collect(normalizeAgent(withRetry(agent, { baseMs: 0 })));
  expect(checkLaws(events)).toEqual([]);
  expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'whole' });
  const retry = types(events).indexOf('retry');
  expect(events[retry]).toMatchObject({ discard: true, error: { code: 'network' } });
  expect(events.slice(0, retry).filter(({ type }) => type === 'tool.failed')).toHaveLength(1);
  const second = events.slice(retry).filter(({ type }) => type === 'tool.args');
  expect(second).toMatchObject([{ delta: '{}' }]);
});

verifies('S207', 'a cancel ends the delay immediately', async () => {
  const { agent, calls } = attempts([failed(500)]);
  const { ctx, abort } = contextFor();
  const read = async (): Promise<void> => {
    for await (const event of withRetry(agent, { baseMs: 3_600_000 })(turnOf('m1'), ctx))
      if (event.type === 'retry') abort('canceled');
  };
  await expect(read()).rejects.toMatchObject({ code: 'canceled' });
  expect(calls()).toBe(1);
});

test.each<[string, AgentEvent[]]>([
  ['a tool was called', [{ type: 'tool.called', callId: 'c', name: 'add', args: {} }]],
  ['an artifact was given', [{ type: 'artifact', artifactId: 'a', parts: [] }]],
  ['a person was asked', [{ type: 'input.required', request: { id: 'm1/q', kind: 'question' } }]],
  [
    'an earlier step has spoken',
    [{ type: 'step.started', step: 1 }, say('said'), { type: 'step.finished', step: 1 }],
  ],
])('a run is not repeated once %s', async (_why, before) => {
  const { agent, calls } = attempts([...before, failed(500)]);
  const { events } = await collect(withRetry(agent, { baseMs: 0 }));
  expect(calls()).toBe(1);
  expect(types(events)).not.toContain('retry');
  expect(events.at(-1)).toMatchObject({ outcome: 'failed', error: { status: 500 } });
});

test('the flags of the agent are kept', () => {
  const agent = Object.assign(attempts([]).agent, { continues: true, resumable: true });
  const { continues, resumable } = withRetry(agent);
  expect({ continues, resumable }).toEqual({ continues: true, resumable: true });
});

test('wherever it fails, the laws hold, no effect is repeated and no text is sent twice', async () => {
  const step = fc.oneof(
    fc.constant<AgentEvent>({ type: 'step.started', step: 1 }),
    fc.constant<AgentEvent>({ type: 'step.finished', step: 1 }),
    fc.constantFrom('a', 'b').map((id) => say('x', id)),
    fc.constant<AgentEvent>({ type: 'tool.started', callId: 'c', name: 'add' }),
    fc.constant<AgentEvent>({ type: 'tool.args', callId: 'c', delta: '1' }),
    fc.constant<AgentEvent>({ type: 'tool.called', callId: 'c', name: 'add', args: 1 }),
  );
  const script = fc.tuple(fc.array(step, { maxLength: 8 }), fc.boolean());
  await fc.assert(
    fc.asyncProperty(fc.array(script, { minLength: 1, maxLength: 3 }), async (scripts) => {
      const runs = scripts.map(([events, fails]) => (fails ? [...events, failed(500)] : events));
      const { agent, calls } = attempts(...runs);
      const { events } = await collect(normalizeAgent(withRetry(agent, { baseMs: 0 })));
      expect(checkLaws(events)).toEqual([]);
      const last = runs[Math.min(calls(), runs.length) - 1] ?? [];
      const words = last.filter(({ type }) => type === 'text.delta').length;
      expect((events.at(-1) as { text: string }).text).toHaveLength(words);
      const effects = events.filter(({ type }) => type === 'tool.called').length;
      expect(effects).toBeLessThanOrEqual(last.filter(({ type }) => type === 'tool.called').length);
    }),
  );
});
