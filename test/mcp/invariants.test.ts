import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { mcpHandler, type McpHandler } from '../../src/mcp/json-rpc/http/server/mcp-handler.ts';
import type { Tool, ToolSource } from '../../src/mcp/types.ts';
import { fromRpcError, toRpcError } from '../../src/wire/json-rpc-errors.ts';
import { Disposer } from '../../src/stream/disposer.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { verifies } from '../verifies.ts';

interface Watched {
  readonly source: ToolSource;
  /** Items that the list has given so far. */
  produced(): number;
  /** Lists and calls that are still open. */
  open(): number;
}

/** A catalogue of so many tools that counts what it gives. `fail` throws in place of an item. */
function catalogue(size: number, fail?: number): Watched {
  let [produced, open] = [0, 0];
  const list = async function* (after: number): AsyncGenerator<Tool, void, undefined> {
    open += 1;
    try {
      for (let n = after; n < size; n += 1) {
        if (n === fail) throw new DuolaneError('conflict', 'the disk is gone');
        produced += 1;
        yield { name: `t${n}`, inputSchema: { type: 'object', 'x-kept': n } };
      }
    } finally {
      open -= 1;
    }
  };
  return {
    produced: () => produced,
    open: () => open,
    source: {
      info: { name: 'counted', version: '1' },
      listTools({ after = '0' } = {}) {
        const items = list(Number(after));
        const self = {
          checkpoint: after,
          async *[Symbol.asyncIterator]() {
            for await (const tool of items) {
              self.checkpoint = String(Number(tool.name.slice(1)) + 1);
              yield tool;
            }
          },
        };
        return self;
      },
      async *callTool({ args }, { signal } = {}) {
        open += 1;
        try {
          for (let n = 1; n <= Number(args['burst']); n += 1)
            yield { type: 'progress', progress: n };
          if (args['wait'])
            await new Promise((_, reject) =>
              signal?.addEventListener('abort', () => reject(signal.reason)),
            );
          yield { type: 'result', result: { content: [{ type: 'text', text: args['text'] }] } };
        } finally {
          open -= 1;
        }
      },
    },
  };
}

interface HttpHop {
  readonly protocol: 'session' | 'stateless';
  readonly pageSize: number;
}

/** gRPC has neither protocols nor pages. */
type Hop = HttpHop | 'grpc';

const httpHop = fc.record({
  protocol: fc.constantFrom('session' as const, 'stateless' as const),
  pageSize: fc.integer({ min: 1, max: 9 }),
});

const upToThree = { minLength: 1, maxLength: 3 };
const httpHops = fc.array(httpHop, upToThree);
const hops = fc.array(fc.oneof(httpHop, fc.constant('grpc' as const)), upToThree);

/** The source behind so many bridges; only gRPC needs sockets. */
async function behind(
  source: ToolSource,
  road: readonly Hop[],
  scope: Disposer,
): Promise<{ source: ToolSource; handlers: McpHandler[] }> {
  const handlers: McpHandler[] = [];
  let near = source;
  for (const hop of road) {
    if (hop === 'grpc') {
      const { url } = scope.use(await offerGrpc(near));
      near = scope.use(await dialGrpc({ url }));
      continue;
    }
    const { protocol, pageSize } = hop;
    const handler = scope.use(mcpHandler(near, { pageSize }));
    handlers.push(handler);
    near = scope.use(
      await dialHttp({
        url: 'http://localhost/mcp',
        protocol,
        fetch: (url, init) => handler.handle(new Request(url as URL, init)),
      }),
    );
  }
  return { source: near, handlers };
}

const RUNS = { numRuns: 25 };

describe('through one to three bridges over HTTP, with either protocol, and gRPC', () => {
  verifies(['S256', 'S257'], 'a list arrives unchanged, with unknown members', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(25), hops, async (size, road) => {
        await using scope = new Disposer();
        const watched = catalogue(size);
        const { source } = await behind(watched.source, road, scope);
        expect(await toArray(source.listTools())).toEqual(
          await toArray(catalogue(size).source.listTools()),
        );
        expect(watched.open()).toBe(0);
      }),
      RUNS,
    );
  });

  verifies('S252', 'breaking out of a list stops it within a page per bridge', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 60 }), httpHops, async (taken, road) => {
        const scope = new Disposer();
        const watched = catalogue(1_000);
        const { source } = await behind(watched.source, road, scope);
        let left = taken;
        for await (const tool of source.listTools()) if ((left -= 1) === 0 && tool) break;
        // Each bridge may have a page in hand and one item read ahead.
        const pages = road.reduce((sum, { pageSize }) => sum + pageSize + 1, 0);
        expect(watched.produced()).toBeLessThanOrEqual(taken + pages);
        await scope[Symbol.asyncDispose]();
        expect(watched.open()).toBe(0);
      }),
      RUNS,
    );
  });

  test('a list that fails in the middle keeps the pages before', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(20), hops, async (fail, road) => {
        await using scope = new Disposer();
        const { source } = await behind(catalogue(30, fail).source, road, scope);
        const seen: string[] = [];
        const run = (async () => {
          for await (const { name } of source.listTools()) seen.push(name);
        })();
        await expect(run).rejects.toMatchObject({ message: 'the disk is gone' });
        expect(seen).toEqual(Array.from({ length: seen.length }, (_, n) => `t${n}`));
        const pages = road.reduce((sum, hop) => sum + (hop === 'grpc' ? 0 : hop.pageSize), 0);
        expect(seen.length).toBeGreaterThanOrEqual(Math.min(fail, fail - pages));
      }),
      RUNS,
    );
  });

  test('calls keep their progress, results and errors apart, also with cancels', async () => {
    const calls = fc.array(fc.record({ burst: fc.nat(12), cancel: fc.boolean() }), {
      minLength: 1,
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(calls, hops, async (wanted, road) => {
        await using scope = new Disposer();
        const watched = catalogue(0);
        const { source } = await behind(watched.source, road, scope);
        await Promise.all(
          wanted.map(async ({ burst, cancel }, n) => {
            const args = { burst: cancel ? 1 : burst, wait: cancel, text: `result ${n}` };
            const progress: number[] = [];
            for await (const event of source.callTool(call('any', args))) {
              if (event.type === 'progress') progress.push(event.progress);
              if (event.type === 'result')
                expect(event.result.content[0]?.['text']).toBe(`result ${n}`);
              if (cancel) break;
            }
            expect(progress).toEqual(Array.from({ length: args.burst }, (_, i) => i + 1));
          }),
        );
        await expect.poll(() => watched.open()).toBe(0);
      }),
      RUNS,
    );
  });

  test('an error keeps its code, message and data over four hops', async () => {
    const error = { code: -32055, message: 'out of tea', data: { kettle: 'empty' } };
    for (const protocol of ['session', 'stateless'] as const) {
      await using scope = new Disposer();
      const failing: ToolSource = {
        ...catalogue(0).source,
        // eslint-disable-next-line require-yield
        async *callTool() {
          throw fromRpcError(error);
        },
      };
      const http = { protocol, pageSize: 5 };
      const { source } = await behind(failing, [http, 'grpc', http, 'grpc'], scope);
      const thrown: unknown = await toArray(source.callTool(call('any'))).catch((e: unknown) => e);
      expect(toRpcError(1, thrown)).toEqual({ jsonrpc: '2.0', id: 1, error });
    }
  });
});
