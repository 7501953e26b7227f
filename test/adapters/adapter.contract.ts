import { availableParallelism, loadavg } from 'node:os';
import { describe, expect, test } from 'vitest';
import type { Answer, Ask } from '../../src/ask.ts';
import { TaskFold, type StreamEvent } from '../../src/a2a/index.ts';
import { advance, checkLaws, lawful, withRetry } from '../../src/event/index.ts';
import type { Agent, AgentEvent, Snapshot } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { all, Caller, serveAgent, shape } from '../a2a/support.ts';
import { contextFor, foldRun, newTask } from '../agent.contract.ts';
import { numbered, turnOf } from '../arbitraries.ts';
import {
  startModelServer,
  type ModelReply,
  type ModelScript,
  type ModelServer,
} from '../support/model-server.ts';

/** A tool as the suite describes it; each harness makes one of its framework from it. */
export interface SceneTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of its arguments. */
  readonly schema: JsonObject;
  /** A person must allow each call. */
  readonly approval?: boolean;
  readonly run: (args: JsonObject, signal: AbortSignal | undefined) => Promise<unknown>;
}

/** What the framework's agent is to be made of. */
export interface Scene {
  /** The scripted model: `<url>/v1` for chat completions, `<url>` for the Messages API. */
  readonly url: string;
  readonly tools: readonly SceneTool[];
  /** JSON Schema of the answer. */
  readonly output?: JsonObject;
}

/** What a framework may not tell us; `docs/adapters.md` has the table. */
export type Gap =
  | 'reasoning'
  | 'arguments'
  | 'approval'
  | 'structured'
  | 'tool error'
  | 'in stream error';

export interface AdapterHarness {
  readonly build: (scene: Scene) => Agent | Promise<Agent>;
  /** The name under which the model calls a tool of the scene. */
  readonly toolName?: (name: string) => string;
  /** What this one does not tell, and why. */
  readonly gaps?: Partial<Record<Gap, string>>;
  /** `own`: the framework retries and says so; else `withRetry` does it, and the framework must not. */
  readonly retries?: 'own';
  /** After a wait the run starts over, so that the model is asked again. */
  readonly startsOver?: boolean;
  /** What is left of the words `the disk is full` that a tool threw. */
  readonly toolError?: string;
  /** How the model gives an answer in a schema; as JSON text by default. */
  readonly structured?: (value: JsonObject) => ModelScript;
  readonly graceMs?: number;
}

const TEXT = ['The ', 'answer ', 'is ', '42.'];
const whole = TEXT.join('');
/** A text that nobody waits for. */
const ENDLESS: ModelReply = {
  text: Array.from({ length: 10_000 }, (_, i) => `w${i} `),
  pieceDelayMs: 3,
};
const numbers = { type: 'object', properties: { a: { type: 'number' } }, required: ['a'] };

const add: SceneTool = {
  name: 'add',
  description: 'Adds one',
  schema: numbers,
  run: async ({ a }) => `sum ${Number(a) + 1}`,
};
const broken: SceneTool = {
  name: 'broken',
  description: 'Never works',
  schema: numbers,
  run: async () => {
    throw new Error('the disk is full');
  },
};

type Of<Type extends AgentEvent['type']> = Extract<AgentEvent, { readonly type: Type }>;
export const only = <Type extends AgentEvent['type']>(
  events: readonly AgentEvent[],
  type: Type,
): readonly Of<Type>[] => events.filter((event): event is Of<Type> => event.type === type);

const joined = (events: readonly AgentEvent[], type: 'text.delta' | 'reasoning.delta'): string =>
  only(events, type)
    .map(({ delta }) => delta)
    .join('');

interface PlayOptions {
  readonly tools?: readonly SceneTool[];
  readonly output?: JsonObject;
  readonly ask?: Ask;
  readonly task?: Snapshot;
  readonly wrap?: (agent: Agent) => Agent;
  /** Sees each event; `leave` makes the reader go. */
  readonly each?: (event: AgentEvent, abort: () => void) => unknown;
}

interface Played {
  readonly events: readonly AgentEvent[];
  readonly end: Of<'run.finished'>;
  readonly model: ModelServer;
}

/** One conformance suite for every adapter, each with its real framework and a scripted model. */
export function adapterContract(name: string, harness: AdapterHarness): void {
  const { gaps = {}, toolName = (plain) => plain, graceMs = 250 } = harness;
  const call = (tool: string, input: JsonObject, id = `call_${tool}`) => ({
    id,
    name: toolName(tool),
    input,
  });

  async function play(script: ModelScript, options: PlayOptions = {}): Promise<Played> {
    await using model = await startModelServer(script);
    return await playOn(model, options);
  }

  async function playOn(model: ModelServer, options: PlayOptions): Promise<Played> {
    const { tools = [], output, ask, task = newTask(), wrap = (agent) => agent, each } = options;
    const agent = await harness.build({ url: model.url, tools, ...(output && { output }) });
    const { ctx, abort } = contextFor(task, ask);
    const events: AgentEvent[] = [];
    for await (const event of lawful(wrap(agent), { graceMs })(turnOf('m1'), ctx)) {
      events.push(event);
      if (each?.(event, () => abort('canceled')) === 'leave') break;
    }
    const isWhole = events.at(-1)?.type === 'run.finished';
    expect(checkLaws(events, { open: !isWhole, calls: task.calls })).toEqual([]);
    foldRun(task, events);
    return { events, end: events.at(-1) as Of<'run.finished'>, model };
  }

  // What a framework does not tell is no test at all, rather than a skipped one.
  const unless = (gap: Gap): typeof test | (() => void) =>
    gaps[gap] === undefined ? test : () => undefined;

  describe(`${name} as an agent`, () => {
    test('plain text: piece by piece, said once, with its usage', async () => {
      const { events, end } = await play([{ text: TEXT, usage: { input: 7, output: 3 } }]);
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      expect(joined(events, 'text.delta')).toBe(whole);
      expect(only(events, 'text.delta').length).toBeGreaterThan(1);
      expect(end.usage).toMatchObject({ inputTokens: 7, outputTokens: 3 });
      expect(only(events, 'step.finished')).toHaveLength(1);
    });

    unless('reasoning')('reasoning comes before the text and is no part of it', async () => {
      const { events, end } = await play([{ thinking: ['Hm, ', 'so.'], text: TEXT }]);
      expect(joined(events, 'reasoning.delta')).toBe('Hm, so.');
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      const types = events.map(({ type }) => type);
      expect(types.indexOf('reasoning.delta')).toBeLessThan(types.indexOf('text.delta'));
    });

    test('a tool: called with its arguments, answered, and the model goes on', async () => {
      const replies = [
        { text: 'I add. ', tools: [call('add', { a: 1 })], usage: { input: 10, output: 5 } },
        { text: TEXT, usage: { input: 20, output: 6 } },
      ];
      const { events, end, model } = await play(replies, { tools: [add] });
      expect(end).toMatchObject({ outcome: 'completed', text: `I add. ${whole}` });
      expect(end.usage).toMatchObject({ inputTokens: 30, outputTokens: 11 });
      expect(only(events, 'step.finished')).toHaveLength(2);
      const [called] = only(events, 'tool.called');
      expect(called).toMatchObject({ name: toolName('add'), args: { a: 1 } });
      const [completed] = only(events, 'tool.completed');
      expect(completed).toMatchObject({ callId: called?.callId, name: toolName('add') });
      expect(JSON.stringify(completed?.output)).toContain('sum 2');
      expect(JSON.stringify(model.calls[1]?.body)).toContain('sum 2');
    });

    unless('arguments')('the arguments of a call come as the model writes them', async () => {
      const tools = [call('add', { a: 1234567 })];
      const { events } = await play([{ tools }, { text: TEXT }], { tools: [add] });
      expect(only(events, 'tool.started')).toMatchObject([{ name: toolName('add') }]);
      const pieces = only(events, 'tool.args').map(({ delta }) => delta);
      expect(pieces.length).toBeGreaterThan(1);
      expect(JSON.parse(pieces.join(''))).toEqual({ a: 1234567 });
    });

    unless('tool error')('a tool that throws is a failed call, and the run goes on', async () => {
      const replies = [{ tools: [call('broken', { a: 1 })] }, { text: TEXT }];
      const { events, end } = await play(replies, { tools: [broken] });
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      expect(only(events, 'tool.completed')).toEqual([]);
      const [failed] = only(events, 'tool.failed');
      expect(failed).toMatchObject({ name: toolName('broken'), error: { code: 'tool' } });
      expect(failed?.error.message).toContain(harness.toolError ?? 'the disk is full');
    });

    test('tools in parallel: each call keeps its own arguments and result', async () => {
      const calls = [call('add', { a: 1 }, 'call_x'), call('add', { a: 40 }, 'call_y')];
      const { events, end } = await play([{ tools: calls }, { text: TEXT }], { tools: [add] });
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

    unless('structured')('structured output is the output of the run', async () => {
      const schema = {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
        additionalProperties: false,
      };
      const { end } = await play(structured({ city: 'Paris' }), { output: schema });
      expect(end).toMatchObject({ outcome: 'completed', output: { city: 'Paris' } });
    });

    test('429, then success: one retry that everybody sees, and no text twice', async () => {
      const script = [{ status: 429, message: 'slow down' }, { text: TEXT }];
      const { events, end, model } = await play(script, { wrap: retrying });
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      expect(only(events, 'retry')).toMatchObject([
        { attempt: 1, error: { code: 'rate_limited', status: 429 } },
      ]);
      expect(model.calls).toHaveLength(2);
    });

    test('500 to the last attempt: a failure with its status', async () => {
      const { events, end, model } = await play(() => ({ status: 500, message: 'broken' }), {
        wrap: retrying,
      });
      expect(end).toMatchObject({
        outcome: 'failed',
        error: { code: 'server', status: 500, retryable: true },
      });
      expect(only(events, 'retry')).toHaveLength(2);
      expect(model.calls).toHaveLength(3);
    });

    test('400: a failure at once', async () => {
      const { end, model } = await play([{ status: 400, message: 'no' }], { wrap: retrying });
      expect(end).toMatchObject({ outcome: 'failed', error: { code: 'invalid', status: 400 } });
      expect(model.calls).toHaveLength(1);
    });

    test('cut in mid-stream: a failure of the network, and what was said stays', async () => {
      const cut: ModelReply = { text: ['one ', 'two ', 'three'], fail: { after: 4, how: 'cut' } };
      const { events, end } = await play(() => cut);
      expect(end).toMatchObject({ outcome: 'failed', error: { code: 'network' } });
      if (harness.retries === 'own') return;
      expect(joined(events, 'text.delta')).toMatch(/^one /);
      expect(end.text).toMatch(/^one /);
    });

    unless('in stream error')(
      'an error inside the stream: a failure, with its meaning',
      async () => {
        const bad: ModelReply = { text: ['one ', 'two'], fail: { after: 4, how: 'error' } };
        const { end } = await play(() => bad);
        expect(end).toMatchObject({
          outcome: 'failed',
          error: { code: 'overloaded', status: 529 },
        });
      },
    );

    test('an attempt that broke after some text leaves none of it behind', async () => {
      const cut: ModelReply = { text: ['one ', 'two ', 'three'], fail: { after: 4, how: 'cut' } };
      const { events, end } = await play([cut, { text: TEXT }], { wrap: retrying });
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
      expect(only(events, 'retry')).toMatchObject([{ discard: true, error: { code: 'network' } }]);
    });

    test('cancel in mid-text: no further word, and the provider is let go', async () => {
      const stopMs = await fastest(async (started) => {
        await using model = await startModelServer([ENDLESS]);
        const { events, end } = await playOn(model, {
          each: (event, abort) => {
            if (event.type !== 'text.delta') return;
            started(model.calls[0]?.closed);
            abort();
          },
        });
        expect(end).toMatchObject({ outcome: 'canceled' });
        expect(only(events, 'text.delta')).toHaveLength(1);
        expect(await model.calls[0]?.closed).toBe('dropped');
      });
      expect(stopMs).toBeLessThan(closeLimitMs());
    });

    test('the consumer leaves: the provider is let go as well', async () => {
      const stopMs = await fastest(async (started) => {
        await using model = await startModelServer([ENDLESS]);
        await playOn(model, {
          each: (event) => {
            if (event.type !== 'text.delta') return undefined;
            started(model.calls[0]?.closed);
            return 'leave';
          },
        });
        expect(await model.calls[0]?.closed).toBe('dropped');
      });
      expect(stopMs).toBeLessThan(closeLimitMs());
    });

    test('cancel in mid-tool: the tool is told, its call closed, no model called', async () => {
      let heard: unknown;
      let running = (): void => {};
      const waits: SceneTool = {
        ...add,
        run: (_args, signal) =>
          new Promise((_resolve, reject) => {
            signal?.addEventListener('abort', () => {
              heard = true;
              reject(new Error('stopped'));
            });
            running();
          }),
      };
      const { events, end, model } = await play(
        [{ tools: [call('add', { a: 1 })] }, { text: TEXT }],
        {
          tools: [waits],
          each: (event, abort) => {
            if (event.type === 'tool.started' || event.type === 'tool.called') running = abort;
          },
        },
      );
      expect(end).toMatchObject({ outcome: 'canceled' });
      expect(only(events, 'tool.failed')).toMatchObject([{ name: toolName('add') }]);
      expect(heard).toBe(true);
      expect(model.calls).toHaveLength(1);
    });

    test('a deaf tool is left behind when the grace is over', async () => {
      let stoppedAt = 0;
      const { events, end } = await play([{ tools: [call('add', { a: 1 })] }, { text: TEXT }], {
        tools: [{ ...add, run: () => new Promise(() => {}) }],
        each: (event, abort) => {
          if (event.type !== 'tool.called') return;
          stoppedAt = performance.now();
          abort();
        },
      });
      expect(end).toMatchObject({ outcome: 'canceled' });
      expect(only(events, 'tool.failed')).toHaveLength(1);
      expect(performance.now() - stoppedAt).toBeLessThan(graceMs + 5000);
    });

    test('served over A2A: the contract holds, and the client has the whole text', async () => {
      await using model = await startModelServer([
        { text: 'I add. ', tools: [call('add', { a: 1 })] },
        { text: TEXT },
      ]);
      const agent = await harness.build({ url: model.url, tools: [add] });
      await using served = await serveAgent(agent);
      const seen = await all(new Caller(served.url).say('What is it?'));
      const fold = new TaskFold();
      for (const { result } of seen) fold.apply(result as unknown as StreamEvent);
      expect(fold.problems).toEqual([]);
      expect(fold.text).toBe(`I add. ${whole}`);
      expect(shape(seen)[0]).toBe('task');
      expect(shape(seen).at(-1)).toBe('completed');
      expect(shape(seen).filter((word) => word === 'completed')).toHaveLength(1);
    });

    approvals();
  });

  const retrying = (agent: Agent): Agent =>
    harness.retries === 'own' ? agent : withRetry(agent, { baseMs: 1 });

  const { structured = (value) => [{ text: JSON.stringify(value) }] } = harness;

  function approvals(): void {
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
        : { tools: [call('add', { a: 1 })] };
    const answering =
      (action: Answer['action'], asked: unknown[] = []): Ask =>
      async (request) => {
        asked.push(request);
        return { id: request.id, action };
      };

    unless('approval')(
      'an approval is a question to a person; accepted, the tool runs',
      async () => {
        const [ran, asked]: [string[], unknown[]] = [[], []];
        const { events, end } = await play(script, {
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

    unless('approval')('declined, the tool does not run and its call has failed', async () => {
      const ran: string[] = [];
      const { events, end } = await play(script, {
        tools: [guarded(ran)],
        ask: answering('decline'),
      });
      expect(ran).toEqual([]);
      expect(only(events, 'tool.completed')).toEqual([]);
      expect(only(events, 'tool.failed')).toHaveLength(1);
      expect(end).toMatchObject({ outcome: 'completed', text: whole });
    });

    unless('approval')('put to sleep while it waits, it goes on with the answer', async () => {
      const ran: string[] = [];
      await using model = await startModelServer(script);
      const agent = await harness.build({ url: model.url, tools: [guarded(ran)] });
      const stop = contextFor();
      const first: AgentEvent[] = [];
      for await (const event of lawful(agent, { graceMs })(turnOf('m1'), stop.ctx)) {
        first.push(event);
        if (event.type === 'input.required') stop.abort('suspended');
      }
      expect(checkLaws(first)).toEqual([]);
      expect(first.at(-1)).toMatchObject({ outcome: 'input-required' });
      const asleep = foldRun(newTask(), first);
      const answers = asleep.pending.map(({ id }): Answer => ({ id, action: 'accept' }));
      const turn = turnOf('m2', { parts: [], answers });
      const awake = advance(asleep, numbered({ type: 'turn.submitted', turn }, asleep.seq + 1));
      const { ctx } = contextFor(awake);
      const second: AgentEvent[] = [];
      for await (const event of lawful(agent, { graceMs })(turnOf('m1'), ctx)) second.push(event);
      expect(checkLaws(second, { calls: awake.calls })).toEqual([]);
      expect(only(second, 'input.required')).toEqual([]);
      expect(second.at(-1)).toMatchObject({ outcome: 'completed' });
      expect(ran).toEqual(['ran 1']);
      expect(model.calls).toHaveLength(harness.startsOver ? 3 : 2);
    });
  }
}

/** 100 ms on a quiet machine; where more wait for a core than there are, as many times more. */
const closeLimitMs = (): number => 100 * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());

/**
 * The least time, of at most three tries, from `started` until the promise given to it settles:
 * one try on a loaded machine says more about the machine than about us.
 */
async function fastest(
  attempt: (started: (closed: Promise<unknown> | undefined) => void) => Promise<void>,
): Promise<number> {
  let least = Infinity;
  for (let tries = 0; tries < 3 && least >= 100; tries++) {
    let closedMs: Promise<number> | undefined;
    await attempt((closed) => {
      const at = performance.now();
      closedMs ??= Promise.resolve(closed).then(() => performance.now() - at);
    });
    least = Math.min(least, (await closedMs) ?? Infinity);
  }
  return least;
}
