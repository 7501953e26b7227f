import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toArray } from '../../../../test/contracts/tool-source.contract.ts';
import { verifies } from '../../../../test/verifies.ts';
import type { JsonObject } from '../../../json.ts';
import { checkTool } from '../../registry/check-tool.ts';
import { StreamingAdapter } from '../../sources/streaming-adapter.ts';
import type { ToolSource } from '../../types.ts';
import { PageWalk } from './page-walk.ts';

interface Script {
  readonly pages: ReadonlyArray<readonly JsonObject[]>;
  /** The cursor that leads to page k + 1. */
  readonly cursors: readonly string[];
}

/** A server that gives these pages, and what it was asked. */
function scripted({ pages, cursors }: Script): {
  readonly asked: Array<string | undefined>;
  readonly open: (after?: string) => PageWalk<JsonObject>;
} {
  const asked: Array<string | undefined> = [];
  const answer = async (cursor: string | undefined): Promise<JsonObject> => {
    asked.push(cursor);
    const page = cursor === undefined ? 0 : cursors.indexOf(cursor) + 1;
    const nextCursor = cursors[page];
    return { items: pages[page], ...(nextCursor !== undefined && { nextCursor }) };
  };
  return {
    asked,
    open: (after) => new PageWalk(answer, 'items', after === undefined ? {} : { after }),
  };
}

const scripts: fc.Arbitrary<Script> = fc
  .array(fc.nat(4), { minLength: 1, maxLength: 8 })
  .chain((sizes) => {
    let n = 0;
    const pages = sizes.map((size) => Array.from({ length: size }, () => ({ n: (n += 1) })));
    return fc
      .uniqueArray(fc.oneof(fc.string(), fc.constantFrom('', '3', 'duolane+2:x', '0:a')), {
        minLength: sizes.length - 1,
        maxLength: sizes.length - 1,
      })
      .map((cursors) => ({ pages, cursors }));
  });

describe('a list in pages', () => {
  verifies(
    ['S256', 'S257'],
    'yields every item once and in order, and requests each page once',
    async () => {
      await fc.assert(
        fc.asyncProperty(scripts, async (script) => {
          const { asked, open } = scripted(script);
          expect(await toArray(open())).toEqual(script.pages.flat());
          expect(asked).toEqual([undefined, ...script.cursors]);
        }),
      );
    },
  );

  verifies(
    ['S258', 'S252'],
    'requests a page only when all items before it are taken, and none after the loop',
    async () => {
      await fc.assert(
        fc.asyncProperty(scripts, fc.nat(20), async (script, leaveAt) => {
          const { asked, open } = scripted(script);
          const sizes = script.pages.map((page) => page.length);
          let taken = 0;
          for await (const _ of open()) {
            // Pages asked for so far, less the one in hand, hold exactly what was taken before.
            const before = sizes.slice(0, asked.length - 1).reduce((sum, size) => sum + size, 0);
            expect(before).toBeLessThanOrEqual(taken);
            taken += 1;
            if (taken > leaveAt) break;
          }
          const requests = asked.length;
          await new Promise((resolve) => setImmediate(resolve));
          expect(asked).toHaveLength(requests);
        }),
        { numRuns: 50 },
      );
    },
  );

  test('continues after any checkpoint as if it had never stopped', async () => {
    await fc.assert(
      fc.asyncProperty(scripts, fc.nat(20), async (script, at) => {
        const all = script.pages.flat();
        const { open } = scripted(script);
        const walk = open();
        const head: JsonObject[] = [];
        for await (const item of walk) {
          head.push(item);
          if (head.length > at) break;
        }
        const rest = walk.checkpoint === undefined ? all : await toArray(open(walk.checkpoint));
        expect([...head, ...rest]).toEqual(all);
      }),
    );
  });

  test('has the cursor of the server as checkpoint at the end of a page', async () => {
    const { asked, open } = scripted({ pages: [[{ n: 1 }], [{ n: 2 }]], cursors: ['abc'] });
    const walk = open();
    for await (const _ of walk) break;
    expect(walk.checkpoint).toBe('abc');
    expect(await toArray(open('abc'))).toEqual([{ n: 2 }]);
    expect(asked).toEqual([undefined, 'abc']);
  });

  verifies(
    'S259',
    'follows the empty cursor and empty pages, and stops at a loop of any period',
    async () => {
      const empty = scripted({ pages: [[], [], [{ n: 1 }]], cursors: ['', 'x'] });
      expect(await toArray(empty.open())).toEqual([{ n: 1 }]);
      for (const period of [1, 2, 5]) {
        let asked = 0;
        const walk = new PageWalk(
          async () => ({ items: [{ n: (asked += 1) }], nextCursor: `c${asked % period}` }),
          'items',
        );
        const seen: JsonObject[] = [];
        await expect(
          (async () => {
            for await (const item of walk) seen.push(item);
          })(),
        ).rejects.toMatchObject({ code: 'malformed' });
        expect(asked).toBe(period + 1);
        expect(seen).toHaveLength(period + 1);
      }
    },
  );

  test('fails if the list never ends', async () => {
    let asked = 0;
    const walk = new PageWalk(async () => ({ items: [], nextCursor: `c${(asked += 1)}` }), 'items');
    await expect(toArray(walk)).rejects.toMatchObject({ code: 'too_large' });
    expect(asked).toBe(10_000);
  });

  test('refuses invalid pages, and keeps the items before them', async () => {
    for (const bad of [{}, { items: {} }, { items: [1] }, { items: [], nextCursor: 3 }]) {
      const pages: JsonObject[] = [{ items: [{ n: 1 }], nextCursor: 'a' }, bad];
      const seen: unknown[] = [];
      await expect(
        (async () => {
          for await (const item of new PageWalk(async () => pages.shift()!, 'items'))
            seen.push(item);
        })(),
      ).rejects.toMatchObject({ code: 'malformed' });
      expect(seen).toEqual([{ n: 1 }]);
    }
  });

  test('treats null as no cursor, and can be read once', async () => {
    const walk = new PageWalk(async () => ({ items: [{ n: 1 }], nextCursor: null }), 'items');
    expect(await toArray(walk)).toEqual([{ n: 1 }]);
    await expect(toArray(walk)).rejects.toMatchObject({ code: 'closed' });
  });
});

describe('both forms of a list', () => {
  const sourceOf = (open: (after?: string) => PageWalk<JsonObject>): ToolSource => {
    const list = (options?: { readonly after?: string }): PageWalk<never> =>
      open(options?.after) as unknown as PageWalk<never>;
    return {
      info: { name: 's', version: '1' },
      async *callTool() {},
      listTools: list,
      listResources: list,
      listResourceTemplates: list,
      listPrompts: list,
    };
  };

  verifies(
    ['S239', 'S240', 'S241', 'S242', 'S243'],
    'are equal: the stream, and the collected list without nextCursor',
    async () => {
      await fc.assert(
        fc.asyncProperty(scripts, async (script) => {
          const { open } = scripted(script);
          const adapter = new StreamingAdapter(sourceOf(open));
          const all = script.pages.flat();
          expect(await toArray(adapter.streamListTools())).toEqual(all);
          expect(await adapter.listTools()).toEqual({ tools: all });
        }),
      );
    },
  );

  verifies(
    'S240',
    'with a cursor, `listTools` returns exactly one page of the server',
    async () => {
      await fc.assert(
        fc.asyncProperty(scripts, async (script) => {
          const { asked, open } = scripted(script);
          const adapter = new StreamingAdapter(sourceOf(open));
          for (const [index, cursor] of script.cursors.entries()) {
            if (cursor.startsWith('duolane+')) continue;
            const next = script.cursors[index + 1];
            asked.length = 0;
            expect(await adapter.listTools({ cursor })).toEqual({
              tools: script.pages[index + 1],
              ...(next !== undefined && { nextCursor: next }),
            });
            expect(asked).toEqual([cursor]);
          }
        }),
      );
    },
  );

  verifies('S250', 'exist for resources, resource templates and prompts', async () => {
    const script = { pages: [[{ n: 1 }], [{ n: 2 }]], cursors: ['x'] };
    const adapter = new StreamingAdapter(sourceOf(scripted(script).open));
    const all = [{ n: 1 }, { n: 2 }];
    expect(await toArray(adapter.streamListResources())).toEqual(all);
    expect(await toArray(adapter.streamListResourceTemplates())).toEqual(all);
    expect(await toArray(adapter.streamListPrompts())).toEqual(all);
    expect(await adapter.listResources()).toEqual({ resources: all });
    expect(await adapter.listResourceTemplates()).toEqual({ resourceTemplates: all });
    expect(await adapter.listPrompts({ cursor: 'x' })).toEqual({ prompts: [{ n: 2 }] });
    const bare = new StreamingAdapter({
      ...sourceOf(scripted(script).open),
      listPrompts: undefined,
    } as never);
    expect(await bare.listPrompts()).toEqual({ prompts: [] });
  });
});

test('items of pages are checked like single items', async () => {
  const pages = [
    { tools: [{ name: 'a', inputSchema: {} }], nextCursor: '2' },
    { tools: [{ name: 'b' }] },
  ];
  const walk = new PageWalk(async () => pages.shift()!, 'tools', {}, checkTool);
  const taken: unknown[] = [];
  const read = async (): Promise<void> => {
    for await (const { items } of walk.pages()) taken.push(...items);
  };
  await expect(read()).rejects.toMatchObject({ code: 'malformed' });
  expect(taken).toEqual([{ name: 'a', inputSchema: {} }]);
});
