import { expect, test } from 'vitest';
import { dialHttp, dialSse } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { BLOCKS, officialCatalogue, ourCatalogue, TOOL_COUNT } from '../support/mcp/catalogue.ts';
import {
  httpV1,
  httpV2,
  officialHttp,
  officialSse,
  officialStateless,
  sseV1,
} from '../support/mcp/mcp-http.ts';
import {
  clientV1,
  clientV2,
  elicitSchema,
  missing,
  serverV1,
  serverV2,
} from '../support/mcp/mcp-sdk.ts';
import { toolSourceContract } from '../contracts/tool-source.contract.ts';
import { suite } from '../verifies.ts';

for (const [pageSize, protocol] of [
  [7, 'session'],
  [1_000, 'session'],
  [7, 'stateless'],
] as const)
  toolSourceContract(`our offer over HTTP, ${protocol}, ${pageSize} a page,`, async () => {
    const { source, ...rest } = ourCatalogue();
    const offered = await offerHttp(source, { pageSize });
    const dialled = await dialHttp({ url: offered.url, protocol });
    return {
      ...rest,
      source: dialled,
      async [Symbol.asyncDispose]() {
        await dialled[Symbol.asyncDispose]();
        await offered[Symbol.asyncDispose]();
      },
    };
  });

toolSourceContract('our offer over the transport of 2024', async () => {
  const { source, ...rest } = ourCatalogue();
  const offered = await offerHttp(source, { pageSize: 7, sse: '/sse' });
  const dialled = await dialSse({ url: new URL('/sse', offered.url) });
  return {
    ...rest,
    source: dialled,
    async [Symbol.asyncDispose]() {
      await dialled[Symbol.asyncDispose]();
      await offered[Symbol.asyncDispose]();
    },
  };
});

test('without the option the transport is not served', async () => {
  await using offered = await offerHttp(ourCatalogue().source);
  await expect(dialSse({ url: new URL('/sse', offered.url) })).rejects.toMatchObject({
    status: 404,
  });
});

const asking = createRegistry({
  name: 'asking',
  tools: [
    tool('book', 'Books a table', {}, async (_, ctx) => {
      const day = await ctx.ask({ id: 'day', kind: 'question', message: 'When?' });
      const seats = await ctx.ask({ id: 'seats', kind: 'question', message: 'How many?' });
      return `${JSON.stringify(day.content)} ${JSON.stringify(seats.content)}`;
    }),
  ],
});

suite('clients of the official SDK, over HTTP', missing, () => {
  test('v1 over the transport of 2024', async () => {
    await using offered = await offerHttp(ourCatalogue().source, { sse: '/sse' });
    const client = clientV1();
    await client.connect(sseV1(new URL('/sse', offered.url)));
    expect((await client.listTools()).tools).toHaveLength(TOOL_COUNT);
    expect(await client.callTool({ name: 'blocks', arguments: {} })).toMatchObject({
      content: BLOCKS,
    });
    await client.close();
  });

  for (const [name, make, road, schema] of [
    ['v1', clientV1, httpV1, elicitSchema.v1],
    ['v2', clientV2, httpV2, elicitSchema.v2],
    [
      'v2 (2026-07-28)',
      (capabilities = {}) => clientV2(capabilities, { versionNegotiation: { mode: 'auto' } }),
      httpV2,
      elicitSchema.v2,
    ],
  ] as const) {
    test(`${name} lists, calls with progress, and sees errors`, async () => {
      await using offered = await offerHttp(ourCatalogue().source);
      const client = make();
      await client.connect(road(offered.url));
      expect((await client.listTools()).tools).toHaveLength(TOOL_COUNT);
      expect(await client.callTool({ name: 'blocks', arguments: {} })).toMatchObject({
        content: BLOCKS,
        structuredContent: { n: 1 },
      });
      const seen: unknown[] = [];
      const onprogress = ({ progress }: { progress: number }): unknown => seen.push(progress);
      const burst = { name: 'burst', arguments: { count: 10 } };
      await (name === 'v1'
        ? client.callTool(burst, undefined, { onprogress })
        : client.callTool(burst, { onprogress }));
      expect(seen).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
      await expect(client.callTool({ name: 'nope', arguments: {} })).rejects.toMatchObject({
        code: -32602,
      });
      await client.close();
    });

    test(`a tool asks twice through ${name}`, async () => {
      await using offered = await offerHttp(asking);
      const client = make({ elicitation: {} });
      const asked: unknown[] = [];
      client.setRequestHandler(schema(), (request) => {
        const { message } = request['params'] as { message: string };
        asked.push(message);
        return { action: 'accept', content: { to: message } };
      });
      await client.connect(road(offered.url));
      expect(await client.callTool({ name: 'book', arguments: {} })).toMatchObject({
        content: [{ type: 'text', text: '{"to":"When?"} {"to":"How many?"}' }],
      });
      expect(asked).toEqual(['When?', 'How many?']);
      await client.close();
    });
  }
});

suite('servers of the official SDK, over HTTP', missing, () => {
  for (const [version, make] of [
    ['v1', serverV1],
    ['v2', serverV2],
  ] as const)
    toolSourceContract(`an official ${version} server over HTTP`, async () => {
      const official = make();
      const rest = officialCatalogue(official);
      const http = await officialHttp(version, official);
      const source = await dialHttp({ url: http.url });
      return {
        ...rest,
        source,
        async [Symbol.asyncDispose]() {
          await source[Symbol.asyncDispose]();
          await http[Symbol.asyncDispose]();
        },
      };
    });

  toolSourceContract('an official v2 server of 2026-07-28', async () => {
    const http = await officialStateless(serverV2);
    const rest = officialCatalogue(http);
    const source = await dialHttp({ url: http.url });
    return {
      ...rest,
      source,
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]();
        await http[Symbol.asyncDispose]();
      },
    };
  });

  toolSourceContract('an official v1 server over SSE', async () => {
    const official = serverV1();
    const rest = officialCatalogue(official);
    const http = await officialSse(official);
    const source = await dialSse({ url: http.url });
    return {
      ...rest,
      source,
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]();
        await http[Symbol.asyncDispose]();
      },
    };
  });
});
