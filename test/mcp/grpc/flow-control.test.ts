import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { dialGrpc, type GrpcSource, offerGrpc } from '../../../src/mcp/grpc/index.ts';
import { dialHttp } from '../../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../../src/mcp/json-rpc/http/server/offer-http.ts';
import type { GrpcListening } from '../../../src/grpc/index.ts';
import type { Tool, ToolResult, ToolSource } from '../../../src/mcp/types.ts';
import { Disposer } from '../../../src/stream/disposer.ts';
import { call, toArray } from '../../contracts/tool-source.contract.ts';
import { verifies } from '../../verifies.ts';

const BYTES = 1_000;
/** A batch in hand, one on its way, a window of 256 KiB, and what the sockets and streams hold. */
const AHEAD = 2 * 32 + ((256 + 64) * 1024) / BYTES;

interface World extends AsyncDisposable {
  readonly far: GrpcSource;
  readonly offered: GrpcListening;
  produced(): number;
  open(): number;
}

/** A list without end, of tools of a kilobyte; `each` is awaited before every item. */
async function world(
  each: (n: number, signal?: AbortSignal) => unknown = () => {},
  call: ToolSource['callTool'] = async function* () {},
): Promise<World> {
  let [produced, open] = [0, 0];
  const list = async function* (signal?: AbortSignal): AsyncGenerator<Tool> {
    open += 1;
    try {
      for (;;) {
        const waits = each(produced, signal);
        if (waits instanceof Promise) await waits;
        produced += 1;
        const description = 'x'.repeat(BYTES);
        yield { name: `t${produced - 1}`, description, inputSchema: {} };
      }
    } finally {
      open -= 1;
    }
  };
  const scope = new Disposer();
  const offered = scope.use(
    await offerGrpc({
      info: { name: 'endless', version: '1' },
      listTools: ({ signal } = {}) => list(signal),
      callTool: call,
    }),
  );
  const far = scope.use(await dialGrpc({ url: offered.url }));
  return {
    far,
    offered,
    produced: () => produced,
    open: () => open,
    [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose](),
  };
}

/** When a count has stood still over several round trips. */
async function settled(count: () => number, roundTrip: () => Promise<unknown>): Promise<number> {
  for (let before = -1; before !== count();) {
    before = count();
    for (let n = 0; n < 20; n += 1) await roundTrip();
  }
  return count();
}

const echo: ToolSource['callTool'] = async function* ({ args }) {
  yield { type: 'result', result: args as unknown as ToolResult };
};

describe('a list over gRPC', () => {
  verifies(['S237', 'S238'], 'the client has the first item before the second exists', async () => {
    let seen = (): void => {};
    const first = new Promise<void>((resolve) => (seen = resolve));
    await using at = await world((n) => (n === 1 ? first : undefined));
    const names: string[] = [];
    for await (const { name } of at.far.listTools()) {
      if (names.length === 0) expect(at.produced()).toBe(1);
      seen();
      if (names.push(name) === 3) break;
    }
    expect(names).toEqual(['t0', 't1', 't2']);
  });

  verifies(
    ['S236', 'S260'],
    'buffering at either side creates the complete list before its first item arrives; ours a batch',
    async () => {
      const size = 3_000;
      let produced = 0;
      const endless = async function* (): AsyncGenerator<Tool> {
        for (produced = 0; produced < size;) {
          produced += 1;
          yield { name: `t${produced - 1}`, description: 'x'.repeat(BYTES), inputSchema: {} };
        }
      };
      const honest: ToolSource = {
        info: { name: 'long', version: '1' },
        listTools: () => endless(),
        callTool: echo,
      };
      const buffering = (inner: ToolSource): ToolSource => ({
        ...inner,
        async *listTools() {
          yield* await toArray(inner.listTools());
        },
      });
      const atFirst = async (source: ToolSource): Promise<number> => {
        for await (const tool of source.listTools()) if (tool) break;
        return produced;
      };
      await using scope = new Disposer();
      const overGrpc = async (source: ToolSource): Promise<ToolSource> => {
        const { url } = scope.use(await offerGrpc(source));
        return scope.use(await dialGrpc({ url }));
      };
      const { url } = scope.use(await offerHttp(honest, { pageSize: 10 }));
      const paged = scope.use(await dialHttp({ url }));
      expect(await atFirst(await overGrpc(buffering(honest)))).toBe(size);
      expect(await atFirst(buffering(await overGrpc(honest)))).toBe(size);
      expect(await atFirst(await overGrpc(honest))).toBeLessThanOrEqual(AHEAD);
      expect(await atFirst(paged)).toBeLessThanOrEqual(11);
    },
  );

  verifies(
    'S251',
    'a reader that stops forever stops the producer within a batch and a window',
    async () => {
      await using at = await world(undefined, echo);
      const list = at.far.listTools()[Symbol.asyncIterator]();
      const taken = 10;
      for (let n = 0; n < taken; n += 1) await list.next();
      const other = () => toArray(at.far.callTool(call('any', { content: [] })));
      expect(await settled(() => at.produced(), other)).toBeLessThanOrEqual(taken + AHEAD);
      await list.return?.();
    },
  );

  verifies('S252', 'breaking out cancels the stream: the producer ends', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 200 }), async (taken) => {
        await using at = await world();
        let left = taken;
        for await (const tool of at.far.listTools()) if ((left -= 1) === 0 && tool) break;
        await expect.poll(() => at.open()).toBe(0);
        await expect.poll(() => at.offered.calls).toBe(0);
        expect(at.produced()).toBeLessThanOrEqual(taken + AHEAD);
      }),
      { numRuns: 10 },
    );
  });

  test('one client that never reads does not delay another', async () => {
    await using at = await world(undefined, echo);
    await using other = await dialGrpc({ url: at.offered.url });
    const stalled = at.far.listTools()[Symbol.asyncIterator]();
    await stalled.next();
    let count = 0;
    for await (const tool of other.listTools()) if ((count += 1) === 2_000 && tool) break;
    expect(count).toBe(2_000);
    await stalled.return?.();
  });

  test('a reader that breaks out during a wait for an item does not wait for it, and the call ends', async () => {
    await using at = await world((n) => (n < 1 ? undefined : new Promise(() => {})));
    const list = at.far.listTools()[Symbol.asyncIterator]();
    await list.next();
    const waiting = list.next();
    await list.return?.();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect(await list.next()).toEqual({ done: true, value: undefined });
    await expect.poll(() => at.offered.calls).toBe(0);
  });

  test('an abort ends it with the reason, also with a producer that ignores its signal', async () => {
    await using at = await world((n) => (n < 2 ? undefined : new Promise(() => {})));
    const controller = new AbortController();
    const seen: string[] = [];
    const reading = (async () => {
      for await (const { name } of at.far.listTools({ signal: controller.signal }))
        if (seen.push(name) === 2) controller.abort(new Error('enough'));
    })();
    await expect(reading).rejects.toThrow('enough');
    expect(seen).toEqual(['t0', 't1']);
  });
});

test('any result is the same at the peer', async () => {
  await using at = await world(undefined, echo);
  const block = fc.oneof(
    fc.record({ type: fc.constant('text'), text: fc.string({ unit: 'binary' }) }),
    fc.record({
      type: fc.constantFrom('image', 'audio'),
      data: fc.oneof(fc.base64String(), fc.string()),
      mimeType: fc.string(),
      annotations: fc.jsonValue({ maxDepth: 1 }),
    }),
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 }),
  );
  const result = fc.record(
    {
      content: fc.array(block, { maxLength: 4 }),
      structuredContent: fc.jsonValue({ maxDepth: 3 }),
      isError: fc.boolean(),
      _meta: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 }),
      strange: fc.jsonValue({ maxDepth: 2 }),
    },
    { requiredKeys: ['content'] },
  );
  await fc.assert(
    fc.asyncProperty(result, async (given) => {
      // Through JSON once, for that is what a source has: no -0, no __proto__.
      const args = JSON.parse(JSON.stringify(given)) as Record<string, unknown>;
      const [last] = await toArray(at.far.callTool(call('any', args)));
      expect(last).toEqual({ type: 'result', result: args });
    }),
    { numRuns: 30 },
  );
});
