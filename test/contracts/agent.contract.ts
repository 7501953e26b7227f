import { describe, expect, test } from 'vitest';
import type { Answer, Ask } from '../../src/ask.ts';
import { DuolaneError, type ErrorCode } from '../../src/errors.ts';
import { advance } from '../../src/event/fold/advance.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { StepContext } from '../../src/event/step-types.ts';
import type { Agent, AgentContext, AgentEvent, Snapshot } from '../../src/event/types.ts';
import { numbered, quiet, turnOf } from '../support/arbitraries.ts';

/** How a suite gets one agent into each of the situations that every agent must survive. */
export interface AgentHarness {
  /** Says at least one word and ends well. */
  readonly normal: () => Agent;
  /** Says at least one word, then works until it is stopped. */
  readonly endless: () => Agent;
  /** Breaks in the middle, in its own way. */
  readonly failing?: () => Agent;
  /** Calls at least one tool and ends well. */
  readonly tools?: () => Agent;
  /** Asks a person once, and ends well when it was answered. */
  readonly asking?: () => Agent;
  /**
   * Resolves when what the last agent used (a connection, a child) is free; rejects if it never is.
   */
  readonly released?: () => Promise<void>;
  /** How long the agent may take to stop; the default of `normalizeAgent` if absent. */
  readonly graceMs?: number;
}

const turn = turnOf('m1');

/** The task as it is when the agent is first called. */
export const newTask = (): Snapshot =>
  advance(undefined, numbered({ type: 'turn.submitted', turn }, 1));

/**
 * A context for one call; `abort` stops it as the runner would. `steps`: results of the durable
 * steps of the turn, to give to a further call.
 */
export function contextFor(
  task: Snapshot = newTask(),
  ask: Ask = () => new Promise(() => {}),
  steps: Map<string, unknown> = new Map(),
): { readonly ctx: AgentContext; readonly abort: (code: ErrorCode) => void } {
  const controller = new AbortController();
  const ctx: AgentContext = {
    signal: controller.signal,
    ask,
    task,
    async *history() {},
    logger: quiet,
    step: async <T>(id: string, run: (context: StepContext) => T | Promise<T>) => {
      if (!steps.has(id))
        steps.set(
          id,
          await run({ signal: controller.signal, key: `${task.task}/${id}`, attempt: 1 }),
        );
      return steps.get(id) as T;
    },
    sleep: async () => {},
    waitFor: () => new Promise(() => {}),
    eventUrl: (id) => `http://localhost/events/${id}`,
  };
  return {
    ctx,
    abort: (code) => controller.abort(new DuolaneError(code, `stopped by the test: ${code}`)),
  };
}

/** Folds what a run said into the task; throws if the log would refuse it. */
export const foldRun = (task: Snapshot, events: readonly AgentEvent[]): Snapshot =>
  events.reduce((snapshot, event) => advance(snapshot, numbered(event, snapshot.seq + 1)), task);

/** The laws, on any agent, in the situations that the harness can make. */
export function agentContract(name: string, harness: AgentHarness): void {
  const { graceMs, released } = harness;
  const decorate = (agent: Agent): Agent =>
    normalizeAgent(agent, graceMs === undefined ? {} : { graceMs });
  const run = async (
    agent: Agent,
    { ctx }: { readonly ctx: AgentContext } = contextFor(),
    each: (event: AgentEvent, index: number) => unknown = () => undefined,
  ): Promise<AgentEvent[]> => {
    const events: AgentEvent[] = [];
    for await (const event of decorate(agent)(turn, ctx)) {
      events.push(event);
      if (each(event, events.length - 1) === 'leave') break;
    }
    return events;
  };
  const isWord = ({ type }: AgentEvent): boolean => type === 'text.delta';
  const checkRun = (events: readonly AgentEvent[], task = newTask()): AgentEvent | undefined => {
    expect(checkLaws(events, { calls: task.calls })).toEqual([]);
    foldRun(task, events);
    expect(events.every((event) => Number.isFinite(event.at))).toBe(true);
    return events.at(-1);
  };

  // A situation that the harness cannot make has no test, instead of a skipped one.
  const given = (make: (() => Agent) | undefined): typeof test | (() => void) =>
    make ? test : () => undefined;

  describe(`${name} keeps the laws`, () => {
    test('when all goes well', async () => {
      const events = await run(harness.normal());
      expect(checkRun(events)).toMatchObject({ type: 'run.finished', outcome: 'completed' });
      expect(events.some(isWord)).toBe(true);
      await released?.();
    });

    test.each(['canceled', 'timeout'] as const)('when it is stopped: %s', async (code) => {
      const stop = contextFor();
      const events = await run(harness.endless(), stop, (event) => {
        if (isWord(event)) stop.abort(code);
      });
      expect(events.filter(isWord), 'no delta follows the abort').toHaveLength(1);
      const outcome = code === 'canceled' ? 'canceled' : 'failed';
      expect(checkRun(events)).toMatchObject({ type: 'run.finished', outcome });
      await released?.();
    });

    test('when it is stopped before it begins', async () => {
      const stop = contextFor();
      stop.abort('canceled');
      const events = await run(harness.endless(), stop);
      expect(events.map(({ type }) => type)).toEqual(['run.started', 'run.finished']);
      checkRun(events);
    });

    test('when the claim is lost: it says nothing more', async () => {
      const stop = contextFor();
      const events = await run(harness.endless(), stop, (event) => {
        if (isWord(event)) stop.abort('fenced');
      });
      expect(events.at(-1)?.type).toBe('text.delta');
      await released?.();
    });

    test('when the reader leaves: the agent stops too', async () => {
      let inner: AbortSignal | undefined;
      const endless = harness.endless();
      const spy: Agent = (given, ctx) => {
        inner = ctx.signal;
        return endless(given, ctx);
      };
      const events = await run(spy, contextFor(), (event) => (isWord(event) ? 'leave' : undefined));
      expect(checkLaws(events, { open: true })).toEqual([]);
      expect(inner?.aborted).toBe(true);
      await released?.();
    });

    given(harness.failing)('when it breaks', async () => {
      const events = await run(harness.failing?.() as Agent);
      expect(checkRun(events)).toMatchObject({
        outcome: 'failed',
        error: { code: expect.any(String) },
      });
      await released?.();
    });

    given(harness.tools)('when it calls tools', async () => {
      const events = await run(harness.tools?.() as Agent);
      expect(checkRun(events)).toMatchObject({ outcome: 'completed' });
      expect(events.some(({ type }) => type === 'tool.called')).toBe(true);
      await released?.();
    });

    given(harness.asking)('when it asks and gets the answer immediately', async () => {
      const answer: Ask = async ({ id }): Promise<Answer> => ({ id, action: 'accept' });
      const events = await run(harness.asking?.() as Agent, contextFor(newTask(), answer));
      expect(events.filter(({ type }) => type === 'input.required')).toHaveLength(1);
      expect(checkLaws(events)).toEqual([]);
      expect(events.at(-1)).toMatchObject({ outcome: 'completed' });
      await released?.();
    });

    given(harness.asking)('when it is put to sleep while it asks, and called again', async () => {
      const asking = harness.asking?.() as Agent;
      const stop = contextFor();
      const first = await run(asking, stop, (event) => {
        if (event.type === 'input.required') stop.abort('suspended');
      });
      expect(checkRun(first)).toMatchObject({ outcome: 'input-required' });
      const asleep = foldRun(newTask(), first);
      expect(asleep.state).toBe('input-required');
      const answers = asleep.pending.map(({ id }): Answer => ({ id, action: 'accept' }));
      const awake = advance(
        asleep,
        numbered(
          { type: 'turn.submitted', turn: turnOf('m2', { parts: [], answers }) },
          asleep.seq + 1,
        ),
      );
      const second = await run(asking, contextFor(awake));
      expect(checkRun(second, awake)).toMatchObject({ outcome: 'completed' });
      expect(second.some(({ type }) => type === 'input.required')).toBe(false);
      await released?.();
    });
  });
}
