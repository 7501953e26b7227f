import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from 'vitest';
import { DuolaneError } from '../../../src/errors.ts';
import { GrpcClient, methodOf, statusOf } from '../../../src/grpc/index.ts';
import type { JsonObject } from '../../../src/json.ts';
import { Mcp } from '../../../src/mcp/grpc/gen/mcp/stream/v1/mcp_pb.ts';
import { Mcp as GoogleMcp } from '../../../src/mcp/grpc/gen/model_context_protocol/mcp_pb.ts';
import { StreamingAdapter } from '../../../src/mcp/sources/streaming-adapter.ts';
import { dialGrpc, offerGrpc, openTunnel } from '../../../src/mcp/grpc/index.ts';
import { dialMessages } from '../../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../../src/mcp/json-rpc/http/server/offer-http.ts';
import { serveMessages } from '../../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../../src/mcp/registry/registry.ts';
import { tool } from '../../../src/mcp/registry/tool.ts';
import type { Tool, ToolEvent, ToolSource } from '../../../src/mcp/types.ts';
import { Cancellation } from '../../../src/stream/cancellation.ts';
import { Disposer } from '../../../src/stream/disposer.ts';
import { fromRpcError, toRpcError } from '../../../src/wire/json-rpc-errors.ts';
import { TLS } from '../../fixtures/tls.ts';
import { ourCatalogue } from '../../support/mcp/catalogue.ts';
import {
  call,
  type Opened,
  toArray,
  toolSourceContract,
} from '../../contracts/tool-source.contract.ts';
import { verifies } from '../../verifies.ts';

/** A way to the catalogue of the contract, over any number of ends. */
const through =
  (lead: (source: ToolSource, scope: Disposer) => Promise<ToolSource>) =>
  async (): Promise<Opened> => {
    const { source, ...rest } = ourCatalogue();
    const scope = new Disposer();
    const led = await lead(source, scope);
    return { ...rest, source: led, [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose]() };
  };

const overGrpc = async (source: ToolSource, scope: Disposer): Promise<ToolSource> => {
  const { url } = scope.use(await offerGrpc(source));
  return scope.use(await dialGrpc({ url }));
};

const overHttp =
  (protocol: 'session' | 'stateless') =>
  async (source: ToolSource, scope: Disposer): Promise<ToolSource> => {
    const { url } = scope.use(await offerHttp(source, { pageSize: 7 }));
    return scope.use(await dialHttp({ url, protocol }));
  };

toolSourceContract('our offer over gRPC', through(overGrpc));

toolSourceContract(
  'our offer through the tunnel',
  through(async (source, scope) => {
    const { url } = scope.use(
      await offerGrpc(source, { tunnel: (road) => serveMessages(source, road, { pageSize: 7 }) }),
    );
    return scope.use(await dialMessages(openTunnel({ url })));
  }),
);

toolSourceContract(
  'a JSON-RPC server behind a bridge to gRPC',
  through(async (source, scope) => overGrpc(await overHttp('session')(source, scope), scope)),
);

toolSourceContract(
  'a gRPC server behind a bridge to JSON-RPC',
  through(async (source, scope) => overHttp('stateless')(await overGrpc(source, scope), scope)),
);

/** Everything that a source can have, with unknown members. */
const rich: ToolSource = {
  info: { name: 'rich', version: '2', instructions: 'Ask first.' },
  async *listTools() {
    yield { name: 'one', inputSchema: { type: 'object' }, strange: [1, { a: null }] };
  },
  async *callTool({ args, answers, state, meta }): AsyncGenerator<ToolEvent> {
    yield { type: 'log', level: 'info', data: { seen: meta ?? null }, logger: 'l' };
    yield { type: 'partial', index: 0, content: [{ type: 'text', text: 'pa' }] };
    yield { type: 'progress', progress: 0.5, total: 1, message: 'half' };
    if (args['ask'] && !answers)
      yield {
        type: 'input',
        requests: [{ id: 'c/day', kind: 'question', message: 'When?', schema: { type: 'object' } }],
        state: 'kept',
      };
    else
      yield {
        type: 'result',
        result: { content: [], structuredContent: [answers ?? 0, state ?? 0], extra: { x: 1 } },
      };
  },
  async *listResources() {
    for (let n = 0; n < 40; n += 1) yield { uri: `file:///${n}`, name: `r${n}`, size: n };
  },
  async *listResourceTemplates() {
    yield { uriTemplate: 'file:///{x}', name: 't', annotations: { priority: 0.25 } };
  },
  async *listPrompts() {
    yield { name: 'p', arguments: [{ name: 'a', required: true }], _meta: { m: 1 } };
  },
  async *readResource(uri, { ask, offset = 0 } = {}) {
    const answer = uri.includes('secret')
      ? await ask!({ id: 'pin', kind: 'auth', message: 'PIN?' })
      : undefined;
    yield { uri, mimeType: 'text/plain', text: `${'ä'.repeat(200_000)}😀`.slice(offset) };
    yield { uri, blob: Buffer.alloc(300_001, 7).toString('base64'), _meta: { answer } };
  },
  async getPrompt(name, args, { ask } = {}) {
    const mood = args['mood'] ?? (await ask!({ id: 'mood', kind: 'question' })).content;
    return { description: name, messages: [{ role: 'user', content: { mood } }] };
  },
  complete: async (request) => ({ completion: { values: [JSON.stringify(request)] } }),
};

async function dialled(source: ToolSource): Promise<{ source: ToolSource } & AsyncDisposable> {
  const scope = new Disposer();
  return {
    source: await overGrpc(source, scope),
    [Symbol.asyncDispose]: () => scope[Symbol.asyncDispose](),
  };
}

describe('over gRPC', () => {
  verifies(
    ['S250', 'S244'],
    'all four lists stream with every member, as they do over cursor pages',
    async () => {
      await using scope = new Disposer();
      for (const far of [
        await overGrpc(rich, scope),
        await overHttp('session')(rich, scope),
        await overHttp('stateless')(rich, scope),
      ]) {
        for (const list of [
          'streamListTools',
          'streamListResources',
          'streamListResourceTemplates',
          'streamListPrompts',
        ] as const) {
          const [near, there] = await Promise.all(
            [rich, far].map((source) => toArray<JsonObject>(new StreamingAdapter(source)[list]())),
          );
          expect(there).toEqual(near);
        }
        expect(far.info).toEqual(rich.info);
      }
    },
  );

  test('a call has all its events, asks, and is repeated with the answer', async () => {
    await using far = await dialled(rich);
    const first = { id: 'c', name: 'one', args: { ask: true }, meta: { trace: 'x' } };
    const near = await toArray(rich.callTool(first));
    expect(await toArray(far.source.callTool(first))).toEqual(near);
    const again = {
      ...first,
      answers: [{ id: 'c/day', action: 'accept' as const, content: { d: 1 } }],
      state: 'kept',
    };
    expect((await toArray(far.source.callTool(again))).at(-1)).toEqual({
      type: 'result',
      result: { content: [], structuredContent: [again.answers, 'kept'], extra: { x: 1 } },
    });
  });

  test('a resource arrives in parts, and is the same when it is joined', async () => {
    await using offered = await offerGrpc(rich);
    await using far = await dialGrpc({ url: offered.url });
    const whole = await toArray(rich.readResource!('file:///a'));
    expect(await toArray(far.readResource!('file:///a'))).toEqual(whole);
    const parts = await toArray(far.streamResource!('file:///a'));
    expect(parts.length).toBeGreaterThan(5);
    expect(parts.map(({ last }) => last).filter(Boolean)).toHaveLength(2);
    for (const { text = '', bytes = [] } of parts)
      expect(Buffer.byteLength(text) + bytes.length).toBeLessThanOrEqual(128 * 1024);
    await using small = await dialGrpc({ url: offered.url, maxResourceBytes: 1_000 });
    await expect(toArray(small.readResource!('file:///a'))).rejects.toMatchObject({
      code: 'too_large',
    });
  });

  test('reads, prompts and completions ask, answer and complete', async () => {
    await using far = await dialled(rich);
    const ask = async ({ id }: { id: string }) => ({ id, action: 'accept' as const, content: id });
    const [, secret] = await toArray(far.source.readResource!('file:///secret', { ask }));
    expect(secret?.['_meta']).toEqual({ answer: { id: 'pin', action: 'accept', content: 'pin' } });
    await expect(toArray(far.source.readResource!('file:///secret'))).rejects.toMatchObject({
      code: 'unsupported',
    });
    expect(await far.source.getPrompt!('p', {}, { ask })).toEqual({
      description: 'p',
      messages: [{ role: 'user', content: { mood: 'mood' } }],
    });
    expect(await far.source.complete!({ ref: { type: 'x' } })).toEqual(
      await rich.complete!({ ref: { type: 'x' } }),
    );
  });

  test('a source with tools only has tools only', async () => {
    await using far = await dialled(createRegistry({ name: 'bare' }));
    const has = Object.keys(far.source);
    expect(has).toEqual(expect.arrayContaining(['listTools', 'callTool', 'listen']));
    expect(has).not.toContain('listResources');
    expect(has).not.toContain('getPrompt');
  });

  test("Google's lists are one message, or several for who says so", async () => {
    await using offered = await offerGrpc(rich);
    await using client = new GrpcClient(offered.url);
    const method = methodOf(GoogleMcp.method.listResources);
    const one = create(GoogleMcp.method.listResources.input);
    const sizes = async (metadata: Record<string, string>): Promise<number[]> =>
      (await toArray(client.stream(method, { one }, { metadata }))).map(
        ({ resources }) => resources.length,
      );
    expect(await sizes({})).toEqual([40]);
    expect(await sizes({ 'mcp-stream': '1' })).toEqual([32, 8]);
  });

  test('the metadata has the method and name of a call, and must equal the message', async () => {
    const seen: unknown[] = [];
    const read = 'x'.repeat(3_000);
    await using offered = await offerGrpc(rich, {
      token: (_, { path, metadata }) =>
        seen.push([path.split('/')[2], metadata['mcp-method'], metadata['mcp-name']]),
    });
    await using far = await dialGrpc({ url: offered.url });
    await toArray(far.callTool(call('größe')));
    await toArray(far.readResource!(`file:///${read}`));
    await far.getPrompt!('p', { mood: 'calm' });
    expect(seen.slice(1)).toEqual([
      ['CallTool', 'tools/call', '=?base64?Z3LDtsOfZQ==?='],
      ['ReadResource', 'resources/read', undefined],
      ['GetPrompt', 'prompts/get', 'p'],
    ]);
    await using client = new GrpcClient(offered.url);
    const one = create(Mcp.method.callTool.input, { id: 'a', name: 'one' });
    const asked = (metadata: Record<string, string>): Promise<unknown> =>
      toArray(client.stream(methodOf(Mcp.method.callTool), { one }, { metadata }));
    await asked({});
    await asked({ 'mcp-name': 'one', 'mcp-method': 'tools/call' });
    for (const metadata of [{ 'mcp-name': 'other' }, { 'mcp-method': 'prompts/get' }]) {
      const status = statusOf(await asked(metadata).catch((error: unknown) => error));
      expect(status).toMatchObject({ status: 9, trailers: { 'mcp-error-code': '-32020' } });
    }
  });

  test('an error of any size arrives with its message and data', async () => {
    const error = {
      code: -32055,
      message: `out of tea ${'é'.repeat(100_000)}`,
      data: { kettle: 'x'.repeat(300_000) },
    };
    const fail = (): never => {
      throw fromRpcError(error);
    };
    const failing: ToolSource = {
      info: { name: 'failing', version: '1' },
      listTools: () => ({
        checkpoint: undefined,
        async *[Symbol.asyncIterator]() {
          yield { name: 'a', inputSchema: { type: 'object' as const } };
          fail();
        },
      }),
      // eslint-disable-next-line require-yield
      async *callTool() {
        fail();
      },
      getPrompt: async () => fail(),
    };
    await using offered = await offerGrpc(failing);
    await using source = await dialGrpc({ url: offered.url });
    const runs = [
      toArray(source.callTool(call('a'))),
      source.getPrompt!('p', {}),
      toArray(source.listTools()),
    ];
    for (const run of runs) {
      const thrown: unknown = await run.catch((e: unknown) => e);
      expect(toRpcError(1, thrown)).toEqual({ jsonrpc: '2.0', id: 1, error });
    }
  });

  test('over TLS, with a trusted certificate', async () => {
    await using offered = await offerGrpc(rich, { tls: TLS });
    expect(offered.url).toMatch(/^grpcs:/);
    await using far = await dialGrpc({ url: offered.url, tls: { ca: TLS.cert } });
    expect(await toArray(far.listTools())).toHaveLength(1);
    await expect(dialGrpc({ url: offered.url })).rejects.toMatchObject({ code: 'network' });
  });

  test('calls need the token', async () => {
    await using offered = await offerGrpc(rich, { token: 'open sesame' });
    await expect(dialGrpc({ url: offered.url })).rejects.toMatchObject({ code: 'unauthorized' });
    await expect(dialGrpc({ url: offered.url, token: 'open' })).rejects.toMatchObject({
      code: 'unauthorized',
    });
    await using far = await dialGrpc({ url: offered.url, token: async () => 'open sesame' });
    expect(await toArray(far.listTools())).toHaveLength(1);
  });

  test.each([
    ['a tool without a schema', { name: 'b' }],
    ['a schema that is not an object', { name: 'b', inputSchema: [1] }],
    ['a tool without a name', { inputSchema: {} }],
  ])('%s is malformed, and earlier items stay valid', async (_, bad) => {
    await using far = await dialled({
      ...rich,
      async *listTools() {
        yield { name: 'a', inputSchema: {} };
        yield bad as unknown as Tool;
      },
    });
    const seen: string[] = [];
    const listing = (async () => {
      for await (const { name } of far.source.listTools()) seen.push(name);
    })();
    await expect(listing).rejects.toMatchObject({ code: 'malformed' });
    expect(seen).toEqual(['a']);
  });

  test('a result of 12 MB is delivered; one over the limit is too large, and hurts no other', async () => {
    await using far = await dialled({
      ...rich,
      async *callTool({ args }) {
        const text = 'x'.repeat(Number(args['size']));
        yield { type: 'result', result: { content: [{ type: 'text', text }] } };
      },
    });
    const size = async (bytes: number): Promise<number> => {
      const [event] = await toArray(far.source.callTool(call('any', { size: bytes })));
      return event?.type === 'result' ? String(event.result.content[0]?.['text']).length : 0;
    };
    const [fits, over, small] = await Promise.all([
      size(12_000_000),
      size(17_000_000).catch((error: unknown) => error),
      size(10),
    ]);
    expect([fits, small]).toEqual([12_000_000, 10]);
    expect(over).toMatchObject({ code: 'too_large' });
  });

  test('a server that exits during a list: earlier items stay valid, the rest is `network`', async () => {
    const offered = await offerGrpc(
      {
        ...rich,
        async *listTools() {
          yield { name: 'a', inputSchema: {} };
          await new Promise(() => {});
        },
      },
      { closeMs: 1 },
    );
    await using far = await dialGrpc({ url: offered.url });
    const seen: string[] = [];
    const listing = (async () => {
      for await (const { name } of far.listTools()) {
        seen.push(name);
        void offered[Symbol.asyncDispose]();
      }
    })();
    await expect(listing).rejects.toBeInstanceOf(DuolaneError);
    expect(seen).toEqual(['a']);
  });
});

describe('the bridge', () => {
  verifies(
    ['S261', 'S262', 'S258'],
    'page [1,2,3] is with the gRPC client before page 2 is requested; then [4,5], and the end',
    async () => {
      await using scope = new Disposer();
      const seen: string[] = [];
      const source = createRegistry({
        name: 'five',
        tools: [1, 2, 3, 4, 5].map((n) => tool(`t${n}`, '', {}, () => '')),
      });
      const { url } = scope.use(await offerHttp(source, { pageSize: 3 }));
      let pages = 0;
      const rpc = scope.use(
        await dialHttp({
          url,
          protocol: 'session',
          async fetch(to, init) {
            const body = typeof init?.body === 'string' ? init.body : '';
            if (body.includes('tools/list')) seen.push(`asks for page ${(pages += 1)}`);
            return fetch(to, init);
          },
        }),
      );
      const far = await overGrpc(rpc, scope);
      for await (const { name } of far.listTools()) seen.push(name);
      expect(seen).toEqual(['asks for page 1', 't1', 't2', 't3', 'asks for page 2', 't4', 't5']);
    },
  );

  verifies('S265', 'a JSON-RPC client reads cursor pages of a gRPC stream', async () => {
    await using scope = new Disposer();
    const far = await overGrpc(ourCatalogue().source, scope);
    const { url } = scope.use(await offerHttp(far, { pageSize: 10 }));
    const rpc = new StreamingAdapter(scope.use(await dialHttp({ url, protocol: 'session' })));
    const all = (await rpc.listTools()).tools.map(({ name }) => name);
    const names: string[] = [];
    const first = rpc.streamListTools();
    for await (const { name } of first) if (names.push(name) === 10) break;
    let cursor = first.checkpoint;
    const sizes = [10];
    while (cursor !== undefined) {
      const page = await rpc.listTools({ cursor });
      names.push(...page.tools.map(({ name }) => name));
      sizes.push(page.tools.length);
      cursor = page.nextCursor;
    }
    expect(names).toEqual(all);
    expect(sizes).toEqual([10, 10, 5]);
  });

  verifies(
    'S266',
    'calls and errors pass both ways, with code, message and data; a failing tool is a result',
    async () => {
      await using scope = new Disposer();
      const { source } = ourCatalogue();
      const error = { code: -32055, message: 'Out of tea ☕', data: { cups: [0] } };
      const strict: ToolSource = {
        info: source.info,
        listTools: (options) => source.listTools(options),
        async *callTool(each, options) {
          if (each.name === 'tea') throw fromRpcError(error);
          yield* source.callTool(each, options);
        },
      };
      const http = await overHttp('stateless')(strict, scope);
      const grpc = await overGrpc(http, scope);
      const http2 = await overHttp('session')(grpc, scope);
      for (const far of [http, grpc, http2]) {
        const echoed = await toArray(far.callTool(call('echo', { text: 'hi' })));
        expect(echoed.at(-1)).toMatchObject({ result: { content: [{ text: 'hi' }] } });
        const failed = await toArray(far.callTool(call('fail')));
        expect(failed.at(-1)).toMatchObject({ type: 'result', result: { isError: true } });
        await expect(toArray(far.callTool(call('nope')))).rejects.toMatchObject({
          code: 'invalid',
          message: 'unknown tool "nope"; list the tools for their names',
        });
        const thrown = await toArray(far.callTool(call('tea'))).catch((one: unknown) => one);
        expect(toRpcError(1, thrown)).toMatchObject({ error });
      }
    },
  );

  test('a cancel passes two bridges', async () => {
    await using scope = new Disposer();
    const { source, slow } = ourCatalogue();
    const far = await overHttp('session')(
      await overGrpc(await overHttp('stateless')(source, scope), scope),
      scope,
    );
    const controller = new AbortController();
    const run = toArray(far.callTool(call('slow'), { signal: controller.signal }));
    run.catch(() => {});
    await slow.started;
    controller.abort(new Error('enough'));
    await slow.aborted;
    await expect(run).rejects.toThrow('enough');
  });

  test('a Cancellation itself can cancel a list', async () => {
    await using scope = new Disposer();
    const far = await overGrpc(
      {
        info: { name: 's', version: '1' },
        async *listTools() {
          yield { name: 'first', inputSchema: { type: 'object' } };
          await new Promise(() => {});
        },
        // oxlint-disable-next-line require-yield -- never called
        async *callTool() {},
      },
      scope,
    );
    const cancellation = new Cancellation(); // its signal is inherited
    const items = far.listTools(cancellation)[Symbol.asyncIterator]();
    expect((await items.next()).value).toMatchObject({ name: 'first' });
    const next = items.next();
    cancellation.abort(new DuolaneError('canceled', 'enough'));
    await expect(next).rejects.toThrow('enough');
  });

  test('10 progress messages in a burst, 200 calls: 2,000 of 2,000', async () => {
    await using scope = new Disposer();
    const far = await overGrpc(ourCatalogue().source, scope);
    const counts = await Promise.all(
      Array.from({ length: 200 }, async () => {
        const events = await toArray(far.callTool(call('burst', { count: 10 })));
        return events.filter(({ type }) => type === 'progress').length;
      }),
    );
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(2_000);
  });

  test('1,100 calls cancelled at the same time affect no other call', async () => {
    await using scope = new Disposer();
    const far = await overGrpc(ourCatalogue().source, scope);
    const controller = new AbortController();
    const bystander = toArray(
      far.callTool(call('slow', { announce: true }), { signal: controller.signal }),
    );
    bystander.catch(() => {});
    await Promise.all(
      Array.from({ length: 1_100 }, async () => {
        for await (const event of far.callTool(call('slow', { announce: true }))) {
          expect(event.type).toBe('progress');
          break;
        }
      }),
    );
    const echoed = await toArray(far.callTool(call('echo', { text: 'on' })));
    expect(echoed.at(-1)).toMatchObject({ type: 'result' });
    controller.abort(new Error('and now'));
    await expect(bystander).rejects.toThrow('and now');
  });
});
