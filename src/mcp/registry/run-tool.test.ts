import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../test/verifies.ts';
import type { Answer } from '../../ask.ts';
import { createRegistry } from './registry.ts';
import { tool } from './tool.ts';
import type { ToolDefinition, ToolEvent, ToolHandler } from '../types.ts';

const registryOf = (
  handler: ToolHandler<never>,
  extras: Partial<ToolDefinition> = {},
): ReturnType<typeof createRegistry> =>
  createRegistry({ name: 'r', tools: [{ name: 't', inputSchema: {}, handler, ...extras }] });

const text = (value: string): ToolEvent => ({
  type: 'result',
  result: { content: [{ type: 'text', text: value }] },
});
const failure = (value: string): ToolEvent => ({
  type: 'result',
  result: { content: [{ type: 'text', text: value }], isError: true },
});

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

describe('a handler', () => {
  verifies(
    ['S61', 'S71'],
    'may be sync, async or a stream; a throw of any kind is a result',
    async () => {
      const table: Array<[ToolHandler<never>, ToolEvent]> = [
        [() => 'x', text('x')],
        [async () => 'x', text('x')],
        [
          async function* () {
            yield text('x');
          },
          text('x'),
        ],
        [
          // oxlint-disable-next-line require-yield
          async function* () {
            return 'x';
          },
          text('x'),
        ],
        [
          () => {
            throw new Error('sync');
          },
          failure('Error: sync'),
        ],
        [async () => Promise.reject(new Error('async')), failure('Error: async')],
        [
          // oxlint-disable-next-line require-yield
          async function* () {
            throw new Error('stream');
          },
          failure('Error: stream'),
        ],
        [async () => Promise.reject('bare'), failure('Error: bare')],
      ];
      for (const [handler, event] of table)
        expect(await toArray(registryOf(handler).callTool(call('t')))).toEqual([event]);
    },
  );

  test('keeps its signal in a copy of the context, created on first access', async () => {
    const controller = new AbortController();
    let copied: AbortSignal | undefined;
    const registry = registryOf((_args, ctx) => {
      const copy = { ...ctx };
      copied = copy.signal;
      expect(copied).toBe(ctx.signal);
      return new Promise((resolve) =>
        copy.signal.addEventListener('abort', () => resolve('stopped'), { once: true }),
      );
    });
    const calling = toArray(registry.callTool(call('t'), { signal: controller.signal }));
    await expect.poll(() => copied).toBeDefined();
    controller.abort(new Error('enough'));
    await expect(calling).rejects.toThrow('enough');
    expect(copied?.reason).toBe(controller.signal.reason);
  });

  test('that returns an invalid result gets an error with the expected form', async () => {
    for (const odd of [undefined, null, 3, [], {}, { content: 'x' }, { content: [{}] }]) {
      const [event] = await toArray(registryOf(() => odd as never).callTool(call('t')));
      expect(event).toMatchObject({ result: { isError: true } });
      expect(JSON.stringify(event)).toContain('expected a string or { content');
    }
  });

  test('structured content alone gets its text block', async () => {
    const [event] = await toArray(
      registryOf(() => ({ structuredContent: { a: 1 } })).callTool(call('t')),
    );
    expect(event).toEqual({
      type: 'result',
      result: { structuredContent: { a: 1 }, content: [{ type: 'text', text: '{"a":1}' }] },
    });
  });

  test('invalid arguments are a failed result that names the field, and never reach it', async () => {
    let reached = false;
    const registry = createRegistry({
      name: 'r',
      tools: [tool('t', '', { kind: z.enum(['bug', 'task']) }, () => `${(reached = true)}`)],
    });
    const text = /^Error: Invalid arguments for tool t: kind: .*bug.*task/;
    expect(await toArray(registry.callTool(call('t', { kind: 'x' })))).toMatchObject([
      {
        type: 'result',
        result: { isError: true, content: [{ text: expect.stringMatching(text) }] },
      },
    ]);
    expect(reached).toBe(false);
  });

  verifies(
    'S93',
    'gets a signal that its caller aborts, and reports progress in order',
    async () => {
      const running = gate();
      const stop = new AbortController();
      let heard: unknown;
      const registry = registryOf(async (_, ctx) => {
        for (let done = 1; done <= 40; done += 1) {
          void ctx.progress(done, 40, `step ${done}`);
          if (done % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
        }
        running.open();
        if (!ctx.signal.aborted)
          await new Promise<void>((resolve) =>
            ctx.signal.addEventListener('abort', () => resolve()),
          );
        heard = ctx.signal.reason;
        return 'too late';
      });
      const seen: ToolEvent[] = [];
      const reason = new Error('stop');
      await expect(
        (async () => {
          for await (const event of registry.callTool(call('t'), { signal: stop.signal })) {
            seen.push(event);
            if (seen.length === 40) stop.abort(reason);
          }
        })(),
      ).rejects.toBe(reason);
      expect(seen.map((event) => event.type === 'progress' && event.progress)).toEqual(
        Array.from({ length: 40 }, (_, index) => index + 1),
      );
      expect(seen[4]).toEqual({ type: 'progress', progress: 5, total: 40, message: 'step 5' });
      await running.opened;
      expect(heard).toBe(reason);
    },
  );

  test('waits for its reader when it awaits progress', async () => {
    let told = 0;
    const registry = registryOf(async (_, ctx) => {
      for (let done = 1; done <= 100; done += 1) {
        await ctx.progress(done);
        told = done;
      }
      return 'x';
    });
    const events = registry.callTool(call('t'))[Symbol.asyncIterator]();
    await events.next();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(told).toBeLessThanOrEqual(3);
    await events.return?.();
  });

  test('has run its finally when its reader breaks out of the loop', async () => {
    let tidy = false;
    const registry = registryOf(async function* (_: never, ctx) {
      try {
        for (let progress = 1; !ctx.signal.aborted; progress += 1)
          yield { type: 'progress', progress };
      } finally {
        tidy = true;
      }
    });
    for await (const _ of registry.callTool(call('t'))) break;
    expect(tidy).toBe(true);
  });

  test('that exceeds its deadline is aborted, ends as an error, and keeps its slot until it ends', async () => {
    const release = gate();
    let runs = 0;
    const registry = registryOf(
      async () => {
        runs += 1;
        if (runs === 1) await release.opened;
        return 'x';
      },
      { deadlineMs: 30, concurrency: 1 },
    );
    expect(await toArray(registry.callTool(call('t')))).toEqual([
      failure('Error: tool "t" timed out after 30 ms (deadlineMs)'),
    ]);
    const second = toArray(registry.callTool(call('t')));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(runs).toBe(1);
    release.open();
    expect(await second).toEqual([text('x')]);
  });

  test('runs at most `concurrency` times concurrently, and a caller may leave the queue', async () => {
    let running = 0;
    let most = 0;
    const registry = registryOf(
      async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
        return 'x';
      },
      { concurrency: 2 },
    );
    const stop = new AbortController();
    const calls = Array.from({ length: 10 }, () => toArray(registry.callTool(call('t'))));
    const left = toArray(registry.callTool(call('t'), { signal: stop.signal }));
    left.catch(() => {});
    stop.abort(new Error('left'));
    await expect(left).rejects.toThrow('left');
    expect((await Promise.all(calls)).flat()).toHaveLength(10);
    expect(most).toBe(2);
  });
});

describe('ask in a handler', () => {
  const answers = (...pairs: Array<[string, Answer['action']]>): Answer[] =>
    pairs.map(([id, action]) => ({ id, action }));

  test('ends the call with all questions; with the answers the call runs again', async () => {
    let runs = 0;
    const registry = registryOf(async (_, ctx) => {
      runs += 1;
      const [first, second] = await Promise.all([
        ctx.ask({ id: 'review', kind: 'approval', message: 'Create it?' }),
        ctx.ask({ id: 'c1/who', kind: 'question' }),
      ]);
      const third = await ctx.ask({ id: 'sure', kind: 'question' });
      return [first, second, third].map((answer) => `${answer.id} ${answer.action}`).join();
    });
    const one = { id: 'c1', name: 't', args: {} };
    expect(await toArray(registry.callTool(one))).toEqual([
      {
        type: 'input',
        requests: [
          { id: 'c1/review', kind: 'approval', message: 'Create it?', callId: 'c1' },
          { id: 'c1/who', kind: 'question', callId: 'c1' },
        ],
      },
    ]);
    const two = answers(['c1/review', 'accept'], ['c1/who', 'decline']);
    expect(await toArray(registry.callTool({ ...one, answers: two }))).toMatchObject([
      { type: 'input', requests: [{ id: 'c1/sure' }] },
    ]);
    const three = [...two, ...answers(['c1/sure', 'cancel'])];
    expect(await toArray(registry.callTool({ ...one, answers: three }))).toEqual([
      text('c1/review accept,c1/who decline,c1/sure cancel'),
    ]);
    expect(runs).toBe(3);
  });

  test('an answer to another call does not count', async () => {
    const registry = registryOf(
      async (_, ctx) => (await ctx.ask({ id: 'q', kind: 'question' })).action,
    );
    const events = registry.callTool({
      id: 'c2',
      name: 't',
      args: {},
      answers: answers(['c1/q', 'accept']),
    });
    expect(await toArray(events)).toMatchObject([{ type: 'input', requests: [{ id: 'c2/q' }] }]);
  });
});

test('its context works through a spread, Object.create and a Proxy', async () => {
  const results: unknown[] = [];
  const registry = createRegistry({
    name: 'r',
    tools: [
      tool('t', '', {}, async (_, ctx) => {
        const forms = [
          ctx,
          { ...ctx },
          Object.create(ctx) as typeof ctx,
          new Proxy(ctx, {}),
          Object.assign({}, ctx),
        ];
        for (const form of forms) {
          await form.sendNotification({
            method: 'notifications/progress',
            params: { progress: results.length },
          });
          results.push([
            form.signal === ctx.signal,
            form.requestId,
            typeof form.sendRequest,
            form._meta,
          ]);
        }
        return 'done';
      }),
    ],
  });
  const made = { ...call('t'), meta: { a: 1 } };
  const events = await toArray(registry.callTool(made));
  expect(events.at(-1)).toMatchObject({ result: { content: [{ text: 'done' }] } });
  expect(events).toHaveLength(6);
  expect(results).toEqual(Array.from({ length: 5 }, () => [true, made.id, 'function', { a: 1 }]));
});
