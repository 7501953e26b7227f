import { expect, test } from 'vitest';
import { asToolSource, dialInProcess, sdkPair } from '../../src/mcp/json-rpc/in-process.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { BLOCKS, officialCatalogue, ourCatalogue, TOOL_COUNT } from '../support/mcp/catalogue.ts';
import {
  clientV1,
  clientV2,
  elicitSchema,
  missing,
  serverV1,
  serverV2,
} from '../support/mcp/mcp-sdk.ts';
import { messagePair } from '../support/mcp/message-pair.ts';
import { toolSourceContract } from '../contracts/tool-source.contract.ts';
import { suite, verifies } from '../verifies.ts';

toolSourceContract('the registry', async () => ourCatalogue());

for (const [pageSize, protocol] of [
  [1, 'session'],
  [7, 'session'],
  [1_000, 'session'],
  [7, 'stateless'],
  [1_000, 'auto'],
] as const)
  toolSourceContract(`the registry behind messages, ${protocol}, ${pageSize} a page,`, async () => {
    const { source, ...rest } = ourCatalogue();
    const [near, far] = messagePair();
    const serving = serveMessages(source, far, { pageSize });
    const dialled = await dialMessages(near, { protocol });
    return {
      ...rest,
      source: dialled,
      async [Symbol.asyncDispose]() {
        await dialled[Symbol.asyncDispose]();
        await serving[Symbol.asyncDispose]();
      },
    };
  });

suite('the official MCP SDK in process', missing, () => {
  for (const [name, make] of [
    ['v1 McpServer', serverV1],
    ['v2 McpServer', serverV2],
  ] as const) {
    toolSourceContract(`an official ${name}`, async () => {
      const official = make();
      const rest = officialCatalogue(official);
      const source = await dialInProcess(official.server);
      return { ...rest, source, [Symbol.asyncDispose]: () => source[Symbol.asyncDispose]() };
    });

    verifies(
      'S67',
      `an official ${name} has its information and serves many sessions`,
      async () => {
        const official = make();
        officialCatalogue(official);
        const source = await asToolSource(official.server);
        expect(await asToolSource(official.server)).toBe(source);
        expect(source.info).toEqual({
          name: 'official',
          version: '3.2.1',
          instructions: 'Use with care.',
        });
        const serve = async (text: string): Promise<unknown> => {
          const [near, far] = messagePair();
          await using serving = serveMessages(source, far);
          await using dialled = await dialMessages(near);
          for await (const event of dialled.callTool({ id: '1', name: 'echo', args: { text } }))
            if (event.type === 'result') return event.result.content[0]?.['text'];
          return serving;
        };
        expect(await Promise.all([serve('a'), serve('b'), serve('c')])).toEqual(['a', 'b', 'c']);
        await official.server.close();
        const again = await asToolSource(official.server);
        expect(again).not.toBe(source);
        await official.server.close();
      },
    );
  }

  for (const [name, make, schema] of [
    ['v1', clientV1, elicitSchema.v1],
    ['v2', clientV2, elicitSchema.v2],
  ] as const) {
    test(`an official ${name} client lists, calls, sees errors and pings`, async () => {
      const client = make();
      const [near, far] = sdkPair();
      await using serving = serveMessages(ourCatalogue().source, near);
      await client.connect(far);
      expect((await client.listTools()).tools).toHaveLength(TOOL_COUNT);
      expect(await client.callTool({ name: 'blocks', arguments: {} })).toMatchObject({
        content: BLOCKS,
        structuredContent: { n: 1 },
      });
      expect(await client.callTool({ name: 'fail', arguments: {} })).toMatchObject({
        isError: true,
        content: [{ type: 'text', text: 'Error: boom' }],
      });
      await expect(client.callTool({ name: 'nope', arguments: {} })).rejects.toMatchObject({
        code: -32602,
      });
      await client.ping();
      expect(await serving.request('ping')).toEqual({});
      await client.close();
      await serving.done;
    });

    test(`a tool asks through an official ${name} client that can elicit`, async () => {
      const registry = createRegistry({
        name: 'asking',
        tools: [
          tool('book', 'Books a table', {}, async (_, ctx) => {
            const answer = await ctx.ask({ id: 'when', kind: 'question', message: 'When?' });
            return `${answer.action} ${JSON.stringify(answer.content)}`;
          }),
        ],
      });
      const client = make({ elicitation: {} });
      const asked: unknown[] = [];
      client.setRequestHandler(schema(), (request) => {
        asked.push(request['params']);
        return { action: 'accept', content: { day: 'Friday' } };
      });
      const [near, far] = sdkPair();
      await using serving = serveMessages(registry, near);
      await client.connect(far);
      expect(await client.callTool({ name: 'book', arguments: {} })).toMatchObject({
        content: [{ type: 'text', text: 'accept {"day":"Friday"}' }],
      });
      expect(asked).toMatchObject([{ message: 'When?' }]);
      await client.close();
      await serving.done;
    });
  }
});
