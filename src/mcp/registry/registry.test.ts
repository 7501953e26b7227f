import fc from 'fast-check';
import { describe, expect, expectTypeOf, test, vi } from 'vitest';
import { z } from 'zod';
import { z as z3 } from 'zod/v3';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../test/verifies.ts';
import { createRegistry } from './registry.ts';
import { createSdkMcpServer, tool } from './tool.ts';
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
describe('the registry', () => {
  verifies(
    ['S51', 'S69'],
    'registers, looks up, lists, replaces in place, unregisters',
    async () => {
      const handles = (): string[] =>
        process.getActiveResourcesInfo().filter((kind) => /Process|TCP|Pipe/.test(kind));
      const before = handles();
      const { type, name, instance } = createSdkMcpServer({ name: 'briefing', version: '1.0.0' });
      expect({ type, name, info: instance.info }).toEqual({
        type: 'sdk',
        name: 'briefing',
        info: { name: 'briefing', version: '1.0.0' },
      });
      for (const id of ['a', 'b', 'c']) instance.register(tool(id, `first ${id}`, {}, () => id));
      instance.register(tool('a', 'second a', {}, () => 'A'));
      expect((await toArray(instance.listTools())).map((one) => one.description)).toEqual([
        'second a',
        'first b',
        'first c',
      ]);
      expect(instance.unregister('b')).toBe(true);
      expect(instance.unregister('b')).toBe(false);
      expect(instance.get('b')).toBeUndefined();
      expect(instance.get('c')).toMatchObject({ name: 'c', inputSchema: { type: 'object' } });
      expect(instance.size).toBe(2);
      expect(await toArray(instance.callTool(call('a')))).toEqual([text('A')]);
      expect(handles()).toEqual(before);
      await expect(toArray(instance.callTool(call('b')))).rejects.toMatchObject({
        code: 'not_found',
        message: 'unknown tool "b"; list the tools for their names',
      });
    },
  );

  verifies(
    'S73',
    'keeps the valid tools if one is invalid, and reports the invalid one',
    async () => {
      const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
      const { instance } = createSdkMcpServer({
        name: 'cci',
        tools: [
          tool('good', 'Good', { a: z.string() }, () => 'x'),
          tool('bad_date', 'Bad', { when: z.date() }, () => 'x'),
          tool('bad_json', 'Bad', { type: 'object', required: null }, () => 'x'),
          tool('bad name', 'Bad', {}, () => 'x'),
          tool('fine', 'Fine', {}, () => 'x'),
        ],
      });
      const warnings = warned.mock.calls.map(([message]) => String(message));
      warned.mockRestore();
      expect((await toArray(instance.listTools())).map((one) => one.name)).toEqual([
        'good',
        'fine',
      ]);
      expect(instance.problems.map((problem) => problem.name)).toEqual([
        'bad_date',
        'bad_json',
        'bad name',
      ]);
      expect(warnings).toHaveLength(3);
      expect(warnings[0]).toMatch(
        /server "cci": invalid tool "bad_date": its input schema is not usable: field "when"/,
      );
      expect(() => instance.register(tool('late', 'Bad', z.string(), () => 'x'))).toThrow(
        /tool "late": its input schema is not usable/,
      );
      instance.register(tool('bad_date', 'Repaired', { when: z.string() }, () => 'x'));
      expect(instance.problems.map((problem) => problem.name)).toEqual(['bad_json', 'bad name']);
    },
  );

  test('an invalid replacement keeps the existing tool', async () => {
    const registry = registryOf(() => 'old');
    expect(() =>
      registry.register({ name: 't', inputSchema: z.string(), handler: () => '' }),
    ).toThrow(/tool "t"/);
    expect(await toArray(registry.callTool(call('t')))).toEqual([text('old')]);
  });

  test('an invalid limit is refused by its name', () => {
    const add = (extras: Partial<ToolDefinition>) => (): void =>
      createRegistry({ name: 'r' }).register({
        name: 't',
        inputSchema: {},
        handler: () => '',
        ...extras,
      });
    expect(add({ deadlineMs: -1 })).toThrow(/a deadlineMs above 0 .* got -1/);
    expect(add({ deadlineMs: 2 ** 31 })).toThrow(/at most 2147483647/);
    expect(add({ concurrency: 0.5 })).toThrow(/a positive integer as concurrency/);
    expect(add({ handler: 'x' as never })).toThrow(/a function as handler/);
  });

  test('a list that is being read does not shift when tools change', async () => {
    const registry = createRegistry({ name: 'r' });
    for (const name of ['a', 'b', 'c']) registry.register(tool(name, name, {}, () => name));
    const seen: string[] = [];
    for await (const { name } of registry.listTools()) {
      seen.push(name);
      registry.unregister('b');
      registry.register(tool('d', 'd', {}, () => 'd'));
    }
    expect(seen).toEqual(['a', 'b', 'c']);
  });

  test('a checkpoint is valid after any change: no tool twice, none missing', async () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,3}$/), {
      minLength: 1,
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(names, fc.nat(), fc.array(fc.nat(11)), async (all, cut, gone) => {
        const registry = createRegistry({ name: 'r' });
        for (const name of all) registry.register(tool(name, name, {}, () => name));
        registry.register(tool(all[cut % all.length]!, 'replaced', {}, () => ''));
        const taken = 1 + (cut % all.length);
        const list = registry.listTools();
        let count = 0;
        for await (const _ of list) if ((count += 1) === taken) break;
        const removed = new Set(
          gone.map((index) => all[index]).filter((name) => name !== undefined),
        );
        for (const name of removed) registry.unregister(name);
        registry.register(tool('fresh', 'fresh', {}, () => ''));
        const rest = await toArray(registry.listTools({ after: list.checkpoint ?? '' }));
        expect(rest.map((one) => one.name)).toEqual([
          ...all.slice(taken).filter((name) => !removed.has(name)),
          'fresh',
        ]);
      }),
    );
  });

  test('changes that wait for a listener are reported once', async () => {
    const registry = registryOf(() => '');
    const stop = new AbortController();
    const changes = registry.listen({ signal: stop.signal })[Symbol.asyncIterator]();
    expect((await changes.next()).value).toEqual({ type: 'listening' });
    for (let n = 0; n < 5; n += 1) registry.register(tool(`n${n}`, '', {}, () => ''));
    expect((await changes.next()).value).toEqual({ type: 'tools' });
    const waiting = changes.next();
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });

  test('the extras are where agents look for them', () => {
    const { instance } = createSdkMcpServer({
      name: 's',
      alwaysLoad: true,
      tools: [
        tool('a', 'A', {}, () => '', {
          annotations: { readOnlyHint: true },
          searchHint: 'tickets',
          alwaysLoad: false,
        }),
        tool('b', 'B', {}, () => ''),
      ],
    });
    expect(instance.get('a')).toMatchObject({
      annotations: { readOnlyHint: true },
      _meta: { 'anthropic/searchHint': 'tickets', 'anthropic/alwaysLoad': false },
    });
    expect(instance.get('b')?.['_meta']).toEqual({ 'anthropic/alwaysLoad': true });
  });

  test('the handler is typed by its schema', () => {
    tool('a', '', { n: z.number(), s: z.string().optional() }, (args) => {
      expectTypeOf(args).toEqualTypeOf<{ n: number; s?: string | undefined }>();
      return '';
    });
    tool('b', '', z.object({ n: z.number() }), (args) => {
      expectTypeOf(args).toEqualTypeOf<{ n: number }>();
      return '';
    });
    const { handler } = tool('c', '', { n: z3.number() }, (args) => {
      expectTypeOf(args).toEqualTypeOf<{ n: number }>();
      return '';
    });
    expectTypeOf(handler).parameter(0).toEqualTypeOf<{ n: number }>();
    tool('d', '', { type: 'object' }, (args) => {
      expectTypeOf(args).toEqualTypeOf<{ readonly [key: string]: unknown }>();
      return '';
    });
    expect(handler).toBeTypeOf('function');
  });
});

test.each<[string, z.ZodType, z.ZodType?]>([
  [
    'synchronously',
    z.string().transform(() => {
      throw new Error('no such place');
    }),
  ],
  [
    'later',
    z.string().transform(async () => {
      throw new Error('no such place');
    }),
  ],
  [
    'after one that waits',
    z.string().transform(() => {
      throw new Error('no such place');
    }),
    z.string().transform(async () => {
      throw new Error('no such day');
    }),
  ],
])(
  'a schema that throws %s is a failed call, like a handler that does',
  async (_, place, day = z.string()) => {
    const registry = createRegistry({
      name: 'r',
      tools: [tool('go', 'Goes', { day, place }, async () => 'gone')],
    });
    expect(await toArray(registry.callTool(call('go', { day: 'x', place: 'x' })))).toEqual([
      {
        type: 'result',
        result: {
          content: [{ type: 'text', text: expect.stringMatching('Error: no such') as string }],
          isError: true,
        },
      },
    ]);
  },
);
