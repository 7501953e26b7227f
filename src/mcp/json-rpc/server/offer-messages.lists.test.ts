import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ourCatalogue } from '../../../../test/support/mcp/catalogue.ts';
import { HELLO, notify, reader, send } from '../../../../test/support/mcp/message-endpoint.ts';
import { verifies } from '../../../../test/verifies.ts';
import type { JsonObject } from '../../../json.ts';
import type { RpcId } from '../../../wire/json-rpc.ts';
import { createRegistry } from '../../registry/registry.ts';
import { tool } from '../../registry/tool.ts';
import type { ToolSource } from '../../types.ts';
import { offerMessages } from './offer-messages.ts';

describe('lists', () => {
  test('arrive in pages of the given size; any cursor may be used again', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 30 }),
        fc.integer({ min: 1, max: 9 }),
        async (count, pageSize) => {
          const registry = createRegistry({ name: 'r' });
          for (let n = 0; n < count; n += 1) registry.register(tool(`t${n}`, '', {}, () => ''));
          await using end = offerMessages(registry, { pageSize });
          const names: unknown[] = [];
          let cursor: string | undefined;
          do {
            const params = cursor === undefined ? {} : { cursor };
            const page = (await send(end, 'tools/list', params))?.['result'] as {
              tools: JsonObject[];
              nextCursor?: string;
            };
            expect(page.tools.length).toBeLessThanOrEqual(pageSize);
            const again = (await send(end, 'tools/list', params))?.['result'] as JsonObject;
            expect(again['tools']).toEqual(page.tools);
            names.push(...page.tools.map(({ name }) => name));
            cursor = page.nextCursor;
          } while (cursor !== undefined);
          expect(names).toEqual(Array.from({ length: count }, (_, n) => `t${n}`));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('are closed when they are started and not continued', async () => {
    let open = 0;
    const source: ToolSource = {
      info: { name: 's', version: '1' },
      async *listTools() {
        open += 1;
        try {
          for (;;) yield { name: 't', inputSchema: {} };
        } finally {
          open -= 1;
        }
      },
      async *callTool() {},
    };
    const end = offerMessages(source, { pageSize: 2 });
    for (let n = 0; n < 200; n += 1) await send(end, 'tools/list');
    expect(open).toBeLessThanOrEqual(64);
    await end[Symbol.asyncDispose]();
    expect(open).toBe(0);
  });

  verifies(
    'S250',
    'of resources, templates and prompts are served when the source has them',
    async () => {
      const items = (key: string) =>
        async function* () {
          for (let n = 0; n < 3; n += 1) yield { [key]: `${n}` };
        };
      const source: ToolSource = {
        info: { name: 's', version: '1' },
        listTools: items('name') as never,
        async *callTool() {},
        listResources: items('uri'),
        listResourceTemplates: items('uriTemplate'),
        listPrompts: items('name'),
        async *readResource(uri) {
          yield { uri, text: 'a' };
          yield { uri, text: 'b' };
        },
        getPrompt: async (name, args) => ({ messages: [], name, args }),
        complete: async (request) => ({ completion: { values: [request['ref']] } }),
      };
      await using end = offerMessages(source);
      expect(await send(end, 'initialize', HELLO)).toMatchObject({
        result: {
          capabilities: {
            resources: { listChanged: false },
            prompts: { listChanged: false },
            completions: {},
          },
        },
      });
      for (const [method, params, result] of [
        ['resources/list', {}, { resources: [{ uri: '0' }, { uri: '1' }, { uri: '2' }] }],
        ['resources/templates/list', {}, { resourceTemplates: [{}, {}, { uriTemplate: '2' }] }],
        ['prompts/list', {}, { prompts: [{}, {}, { name: '2' }] }],
        ['resources/read', { uri: 'u' }, { contents: [{ uri: 'u', text: 'a' }, { text: 'b' }] }],
        ['prompts/get', { name: 'p', arguments: { x: 'y' } }, { name: 'p', args: { x: 'y' } }],
        ['completion/complete', { ref: 'r' }, { completion: { values: ['r'] } }],
      ] as const)
        expect(await send(end, method, params)).toMatchObject({ result });
    },
  );
});

describe('messages that the server sends on its own', () => {
  test('a changed registry is announced', async () => {
    const registry = createRegistry({ name: 'r' });
    await using end = offerMessages(registry);
    const { waitFor } = reader(end);
    await send(end, 'initialize', HELLO);
    registry.register(tool('t', '', {}, () => ''));
    expect(await waitFor('notifications/tools/list_changed')).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/tools/list_changed',
    });
  });

  test('only a message with a result or an error, and without a method, settles our request', async () => {
    await using end = offerMessages(ourCatalogue().source);
    const { waitFor } = reader(end);
    const asked = end.request('sampling/createMessage', { messages: [] });
    const { id } = await waitFor('sampling/createMessage');
    // Ids of the two directions are independent: the client uses the same one for its own request.
    const call = { name: 'echo', arguments: { text: 'x' } };
    expect(await send(end, 'tools/call', call, id as RpcId)).toMatchObject({ id, result: {} });
    await end.receive({ jsonrpc: '2.0', id: 99, result: { nobody: true } });
    await end.receive({ jsonrpc: '2.0', id: id as RpcId, result: { role: 'assistant' } });
    expect(await asked).toEqual({ role: 'assistant' });
    const refused = end.request('roots/list');
    const { id: second } = await waitFor('roots/list');
    await end.receive({
      jsonrpc: '2.0',
      id: second as RpcId,
      error: { code: -32601, message: 'no' },
    });
    await expect(refused).rejects.toMatchObject({ code: 'unsupported', message: 'no' });
  });
});

describe('a tool that asks', () => {
  const asking = (): ToolSource =>
    createRegistry({
      name: 'r',
      tools: [
        tool('t', '', {}, async (_, ctx) => {
          const first = await ctx.ask({ id: 'a', kind: 'approval', message: 'Do it?' });
          const second = await ctx.ask({ id: 'b', kind: 'question' });
          return `${first.id} ${first.action}, ${second.id} ${second.action}`;
        }),
      ],
    });
  const call = { name: 't', _meta: { 'claudecode/toolUseId': 'toolu_1' } };

  test('is answered by `ask` and called again until it has a result', async () => {
    await using end = offerMessages(asking(), {
      ask: async ({ id }) => ({ id, action: id.endsWith('a') ? 'accept' : 'decline' }),
    });
    expect(await send(end, 'tools/call', call)).toMatchObject({
      result: { content: [{ text: 'toolu_1/a accept, toolu_1/b decline' }] },
    });
  });

  test('asks the client if it supports elicitation', async () => {
    await using end = offerMessages(asking());
    await send(end, 'initialize', { ...HELLO, capabilities: { elicitation: {} } });
    void (async () => {
      for await (const { id, method } of end.outgoing)
        if (method === 'elicitation/create')
          await end.receive({ jsonrpc: '2.0', id, result: { action: 'accept', content: {} } });
    })();
    expect(await send(end, 'tools/call', call)).toMatchObject({
      result: { content: [{ text: 'toolu_1/a accept, toolu_1/b accept' }] },
    });
  });

  test('reports that no one can be asked', async () => {
    await using end = offerMessages(asking());
    const answer = await send(end, 'tools/call', call);
    expect(answer).toMatchObject({ result: { isError: true } });
    expect(JSON.stringify(answer)).toContain('Do it?');
  });

  test('stops asking when the call is cancelled', async () => {
    const aborted: unknown[] = [];
    let onAsk = (): void => {};
    const asked = new Promise<void>((resolve) => (onAsk = resolve));
    await using end = offerMessages(asking(), {
      ask: (_, { signal } = {}) => {
        onAsk();
        return new Promise((__, reject) =>
          signal?.addEventListener('abort', () => reject(aborted.push('aborted'))),
        );
      },
    });
    const running = send(end, 'tools/call', call, 5);
    await asked;
    await notify(end, 'notifications/cancelled', { requestId: 5 });
    expect(await running).toBeUndefined();
    expect(aborted).toEqual(['aborted']);
  });
});
