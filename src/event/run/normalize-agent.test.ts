import { setImmediate as macrotask, setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { contextFor, foldRun, newTask } from '../../../test/contracts/agent.contract.ts';
import { quiet, script, scriptedAgent, turnOf } from '../../../test/support/arbitraries.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Answer, Ask } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { checkLaws } from '../check-laws.ts';
import { normalizeAgent } from './normalize-agent.ts';
import type { Agent, AgentContext, AgentEvent } from '../types.ts';
import { growth } from '../../../test/support/busy.ts';

const turn = turnOf('m1');
const said = (delta: string): AgentEvent => ({ type: 'text.delta', id: 'x', delta });

async function collect(events: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const all: AgentEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}
const types = (events: readonly AgentEvent[]): string[] => events.map(({ type }) => type);

describe('the driver', () => {
  test('keeps the flags of an agent, and sets a time on every event', async () => {
    const agent: Agent = Object.assign(async function* () {}, { resumable: true, continues: true });
    const decorated = normalizeAgent(agent);
    expect([decorated.resumable, decorated.continues]).toEqual([true, true]);
    const events = await collect(decorated(turn, contextFor().ctx));
    expect(types(events)).toEqual(['run.started', 'run.finished']);
    expect(events.every(({ at }) => typeof at === 'number')).toBe(true);
  });

  const deep = (): object => {
    let value: object = {};
    for (let n = 0; n < 50_000; n++) value = { value };
    return value;
  };
  const gone = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  };
  const never = (): never => {
    throw new Error('never read');
  };
  const yielding = (value: unknown): Agent =>
    async function* () {
      yield value as AgentEvent;
    };
  const throwing = (value: unknown): Agent =>
    async function* () {
      yield said('a');
      throw value;
    };
  const nexting =
    (value: unknown): Agent =>
    () => ({ [Symbol.asyncIterator]: () => ({ next: async () => value as never }) });
  const status = (data: unknown): unknown => ({ type: 'status', message: 'm', data });

  verifies(
    ['S130', 'S133'],
    'nothing that an agent yields or throws gets past its run',
    async () => {
      const agents: Record<string, Agent> = {
        'yields what is too deep': yielding(status(deep())),
        'yields what throws when it is read': yielding(
          status({
            get a() {
              return never();
            },
          }),
        ),
        'yields what throws when it is written': yielding(status({ toJSON: never })),
        'yields a type that throws': yielding({
          get type() {
            return never();
          },
        }),
        'yields nothing that can be looked at': yielding(gone()),
        'ends with what is too deep': yielding({
          type: 'run.finished',
          outcome: 'completed',
          text: 'a',
          output: deep(),
        }),
        'ends with an error that throws': yielding({
          type: 'run.finished',
          outcome: 'failed',
          error: {
            toJSON: never,
            get code() {
              return never();
            },
          },
        }),
        'throws an object without a prototype': throwing(Object.create(null)),
        'throws what throws when it is read': throwing({
          toString: never,
          get message() {
            return never();
          },
        }),
        'throws a revoked proxy': throwing(gone()),
        'gives no result': nexting(undefined),
        'gives a number': nexting(5),
        'is not an agent': (() => undefined) as never,
        'asks what is too deep': async function* (_turn, ctx) {
          await ctx.ask({ id: 'q', kind: 'question', data: deep() });
          yield said('a');
        },
      };
      for (const [what, agent] of Object.entries(agents)) {
        const events = await collect(normalizeAgent(agent, { graceMs: 5 })(turn, contextFor().ctx));
        const ends = events.filter(({ type }) => type === 'run.finished');
        expect([what, ends]).toEqual([what, [expect.objectContaining({ outcome: 'failed' })]]);
        expect(events.at(-1)).toBe(ends[0]);
      }
    },
  );

  const withThen = (target: object, then: PropertyDescriptor): object =>
    // oxlint-disable-next-line no-thenable
    Object.defineProperty(target, 'then', then);

  test('an agent with manipulated promises still ends once', async () => {
    const end = Promise.resolve({ done: true, value: undefined });
    const twice = (resolve: (result: unknown) => void): void => {
      for (const value of [said('a'), said('a')]) resolve({ done: false, value });
    };
    const nexts: Record<string, () => unknown> = {
      'throws before its first event': never,
      'gives a result, not a promise': () => ({ done: true, value: undefined }),
      'a thenable that throws': () => withThen({}, { value: never }),
      'a thenable whose then cannot be read': () => withThen({}, { get: never }),
      'a promise whose constructor cannot be read': () =>
        Object.defineProperty(Promise.resolve(), 'constructor', { get: never }),
      'a promise whose then throws': () => withThen(end, { value: never, configurable: true }),
      'a promise whose then calls twice': () => withThen(end, { value: twice, configurable: true }),
      'a promise whose then does nothing': () => withThen(end, { value: () => {} }),
    };
    for (const [what, next] of Object.entries(nexts)) {
      const agent: Agent = () => ({ [Symbol.asyncIterator]: () => ({ next: next as never }) });
      const events = await collect(normalizeAgent(agent, { graceMs: 5 })(turn, contextFor().ctx));
      expect([what, ...types(events)]).toEqual([what, 'run.started', 'run.finished']);
    }
  });

  test('a copy of the context, and members taken off it, work like the context', async () => {
    const { ctx, abort } = contextFor();
    const earlier = newTask();
    let copied: AbortSignal | undefined;
    const agent: Agent = async function* (_turn, inner) {
      const copy = { ...inner };
      const heir = Object.create(inner) as AgentContext;
      const proxy = new Proxy(inner, {});
      // oxlint-disable-next-line unbound-method
      const { history, signal } = inner;
      copied = copy.signal;
      for (const { signal: theirs } of [copy, heir, proxy]) expect(theirs).toBe(signal);
      for await (const task of history()) yield said(task.task);
      for await (const task of copy.history()) yield said(task.task);
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    };
    const context: AgentContext = {
      ...ctx,
      async *history() {
        yield earlier;
      },
    };
    const events: AgentEvent[] = [];
    for await (const event of normalizeAgent(agent)(turn, context)) {
      events.push(event);
      if (types(events).filter((type) => type === 'text.delta').length === 2) abort('canceled');
    }
    expect(events.at(-1)).toMatchObject({ outcome: 'canceled' });
    expect(copied?.aborted).toBe(true);
  });

  test('a note replaces a value that is nested too deeply, and the run goes on', async () => {
    const data = JSON.parse(`${'['.repeat(1000)}${']'.repeat(1000)}`) as unknown;
    const agent: Agent = async function* () {
      yield { type: 'artifact', artifactId: 'a', parts: [{ data }] };
      yield { type: 'tool.called', callId: 'c', name: 'f', args: data };
      const frame = { lane: 'control', direction: 'in', at: 1, data: { data } } as const;
      yield { type: 'frame', frame };
      yield said('b');
    };
    const events = await collect(normalizeAgent(agent)(turn, contextFor().ctx));
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'b' });
    const [artifact] = events.filter(({ type }) => type === 'artifact');
    expect(JSON.stringify(artifact)).toContain('too deep');
    for (const event of events) expect(JSON.stringify(event).length).toBeLessThan(1000);
    expect(checkLaws(events)).toEqual([]);
  });

  test('pulls the agent only as the reader pulls', async () => {
    let produced = 0;
    const events = normalizeAgent(async function* () {
      for (;;) yield said(`${(produced += 1)}`);
    })(turn, contextFor().ctx)[Symbol.asyncIterator]();
    expect(produced).toBe(0);
    for (let i = 0; i < 5; i++) await events.next();
    await macrotask();
    expect(produced).toBeLessThanOrEqual(5);
    await events.return?.();
  });

  test('breaking out of the loop while the agent is awaited ends both', async () => {
    let stopped: unknown;
    const events = normalizeAgent(
      async function* (_turn, { signal }) {
        signal.addEventListener('abort', () => (stopped = signal.reason));
        yield said('a');
        await new Promise(() => {});
      },
      { graceMs: 5 },
    )(turn, contextFor().ctx)[Symbol.asyncIterator]();
    await events.next();
    await events.next();
    const waiting = events.next();
    await events.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(stopped).toBeInstanceOf(DuolaneError);
  });

  test('the end of a run gives its agent time to clean up', async () => {
    let cleaned = false;
    const agent: Agent = async function* () {
      try {
        yield { type: 'run.finished', outcome: 'completed', text: '' };
      } finally {
        await sleep(5);
        cleaned = true;
      }
    };
    await collect(normalizeAgent(agent, { graceMs: 5000 })(turn, contextFor().ctx));
    expect(cleaned).toBe(true);
  });

  verifies(
    'S178',
    'a canceled run says one thing more, its end, whatever its agent goes on to say',
    async () => {
      const stop = contextFor();
      let deaf = 0;
      const agent: Agent = async function* () {
        yield { type: 'tool.called', callId: 'c', name: 'f', args: {} };
        yield said('a');
        for (; ; deaf++) {
          yield said('still talking');
          await sleep(1);
        }
      };
      const events: AgentEvent[] = [];
      for await (const event of normalizeAgent(agent, { graceMs: 30 })(turn, stop.ctx)) {
        events.push(event);
        if (event.type === 'text.delta') stop.abort('canceled');
      }
      const after = events.slice(events.findIndex(({ type }) => type === 'text.delta') + 1);
      expectCanceled(after);
      const seen = deaf;
      await sleep(20);
      expectLeftBehind(deaf, seen);
    },
  );

  test('a late error of an abandoned agent is handled', async () => {
    const unhandled: unknown[] = [];
    const hear = (reason: unknown): number => unhandled.push(reason);
    process.on('unhandledRejection', hear);
    try {
      const stop = contextFor();
      let fail = (_error: Error): void => {};
      const broken = new Promise<never>((_resolve, reject) => (fail = reject));
      const agent: Agent = async function* (_turn, { ask }) {
        void ask({ id: 'm1/q', kind: 'question' });
        yield said('a');
        await broken;
      };
      for await (const event of normalizeAgent(agent, { graceMs: 5 })(turn, stop.ctx))
        if (event.type === 'text.delta') stop.abort('canceled');
      fail(new Error('late'));
      await macrotask();
      await macrotask();
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', hear);
    }
  });

  test('no listener stays on the signal of the caller', async () => {
    const { ctx } = contextFor();
    let listeners = 0;
    const { signal } = ctx;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => ((listeners += 1), add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (
      (listeners -= 1),
      remove(...args)
    );
    await collect(normalizeAgent(async function* () {})(turn, ctx));
    expect(listeners).toBe(0);
  });
});

function expectCanceled(events: readonly AgentEvent[]): void {
  expect(types(events)).toEqual(['text.end', 'tool.failed', 'run.finished']);
  expect(events[1]).toMatchObject({ error: { code: 'canceled' } });
  expect(events[2]).toMatchObject({ outcome: 'canceled', text: 'Response stopped.' });
}

function expectLeftBehind(now: number, before: number): void {
  expect(now - before).toBeLessThanOrEqual(1);
}

describe('ask', () => {
  const request = { id: 'm1/ok', kind: 'question' } as const;
  const asker: Agent = async function* (_turn, { ask }) {
    const { content } = await ask(request);
    yield said(String(content));
  };

  test('becomes one event, and is sent while the agent yields nothing', async () => {
    let answer = (_answer: Answer): void => {};
    const ask: Ask = () => new Promise((resolve) => (answer = resolve));
    const events: AgentEvent[] = [];
    for await (const event of normalizeAgent(asker)(turn, contextFor(newTask(), ask).ctx)) {
      events.push(event);
      if (event.type === 'input.required')
        answer({ id: request.id, action: 'accept', content: 'yes' });
    }
    expect(types(events)).toEqual([
      'run.started',
      'input.required',
      'text.delta',
      'text.end',
      'run.finished',
    ]);
  });

  test('is not repeated if the log has it, and resolves immediately if the log has the answer', async () => {
    const pending = { ...newTask(), current: turn, attempt: 1, pending: [request] };
    const asked: string[] = [];
    const ask: Ask = async ({ id }) => (asked.push(id), { id, action: 'accept', content: 'live' });
    const live = await collect(normalizeAgent(asker)(turn, contextFor(pending, ask).ctx));
    expect(types(live)).not.toContain('input.required');
    expect(asked).toEqual(['m1/ok']);
    const answered = {
      ...newTask(),
      current: turn,
      attempt: 1,
      answers: [{ id: request.id, action: 'accept', content: 'logged' } as const],
    };
    const again = await collect(normalizeAgent(asker)(turn, contextFor(answered, ask).ctx));
    expect(again.at(-1)).toMatchObject({ outcome: 'completed', text: 'logged' });
    expect(asked).toHaveLength(1);
  });

  test('a suspended run waits with its question; without one it is handed back', async () => {
    const sleepy = contextFor();
    const events: AgentEvent[] = [];
    for await (const event of normalizeAgent(asker)(turn, sleepy.ctx)) {
      events.push(event);
      if (event.type === 'input.required') sleepy.abort('suspended');
    }
    expect(events.at(-1)).toMatchObject({ outcome: 'input-required', pending: [request] });
    const talker = contextFor();
    const talked: AgentEvent[] = [];
    const talk: Agent = async function* (_turn, { signal }) {
      yield said('a');
      await sleep(10_000, undefined, { signal });
    };
    for await (const event of normalizeAgent(talk)(turn, talker.ctx)) {
      talked.push(event);
      if (event.type === 'text.delta') talker.abort('suspended');
    }
    expect(types(talked)).toEqual(['run.started', 'text.delta', 'text.end']);
  });

  test('a run does not wait for a question that its asker withdrew', async () => {
    const agent: Agent = async function* (_turn, { ask }) {
      await ask(request, { signal: AbortSignal.abort(new Error('never mind')) }).catch(() => {});
      yield said('went on');
    };
    const events = await collect(normalizeAgent(agent)(turn, contextFor().ctx));
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'went on' });
  });
});

describe('on every run', () => {
  verifies(
    ['S132', 'S133'],
    'laws hold for agents that throw, hang, talk for ever or end early, stopped at any moment',
    async () => {
      const reasons = fc.constantFrom('canceled', 'timeout', 'suspended', 'fenced');
      await fc.assert(
        fc.asyncProperty(script, reasons, fc.nat(20), async (steps, code, stopAfter) => {
          const stop = contextFor();
          const events: AgentEvent[] = [];
          const timer = setTimeout(() => stop.abort(code), 3);
          for await (const event of normalizeAgent(scriptedAgent(steps), { graceMs: 1 })(
            turn,
            stop.ctx,
          )) {
            events.push(event);
            if (events.length === stopAfter) stop.abort(code);
          }
          clearTimeout(timer);
          checkEvents(
            events,
            stop.ctx.signal.aborted && (code === 'suspended' || code === 'fenced'),
          );
        }),
        { numRuns: 150 },
      );
    },
  );

  test('any order of questions, answers, aborts and pulls gives a valid run', async () => {
    await fc.assert(
      fc.asyncProperty(fc.scheduler(), fc.nat(3), fc.boolean(), async (scheduler, asks, cancel) => {
        const tick = (label: string): Promise<unknown> =>
          scheduler.schedule(Promise.resolve(), label);
        const ask: Ask = async ({ id }) => {
          await tick(`answer ${id}`);
          return { id, action: 'accept' };
        };
        const stop = contextFor(newTask(), ask);
        const agent: Agent = async function* (_turn, ctx: AgentContext) {
          yield { type: 'tool.called', callId: 'c', name: 'f', args: {} };
          const open = Array.from({ length: asks }, (_, i) =>
            ctx.ask({ id: `c/${i}`, kind: 'approval' }),
          );
          yield said('meanwhile');
          await tick('work');
          await Promise.all(open);
          yield { type: 'tool.completed', callId: 'c', name: 'f', output: 1 };
        };
        if (cancel) void tick('cancel').then(() => stop.abort('canceled'));
        const run = (async () => {
          const events: AgentEvent[] = [];
          for await (const event of normalizeAgent(agent, { graceMs: 1 })(turn, stop.ctx)) {
            events.push(event);
            await tick('pull');
          }
          return events;
        })();
        const events = await scheduler.waitFor(run);
        checkEvents(events, false);
      }),
      { numRuns: 60 },
    );
  });

  test('deltas take time linear in their number', async () => {
    const run = async (deltas: number): Promise<void> => {
      const agent: Agent = async function* () {
        for (let i = 0; i < deltas; i++) yield said('word ');
      };
      let count = 0;
      let last: AgentEvent | undefined;
      for await (const event of normalizeAgent(agent)(turn, {
        ...contextFor().ctx,
        logger: quiet,
      })) {
        count += 1;
        last = event;
      }
      expect(count).toBeGreaterThan(deltas);
      expect(last).toMatchObject({ outcome: 'completed', text: 'word '.repeat(deltas) });
    };
    expect(await growth(25_000, run)).toBeLessThan(10);
  });
});

function checkEvents(events: readonly AgentEvent[], open: boolean): void {
  expect(checkLaws(events, { open })).toEqual([]);
  foldRun(newTask(), events);
}
