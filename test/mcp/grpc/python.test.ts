import { expect, test } from 'vitest';
import { dialGrpc, offerGrpc } from '../../../src/mcp/grpc/index.ts';
import { serveMessages } from '../../../src/mcp/json-rpc/server/serve-messages.ts';
import { ourCatalogue, TOOL_COUNT } from '../../support/mcp/catalogue.ts';
import { missing, pythonClient, pythonServer } from '../../support/mcp/grpc-python.ts';
import { call, toArray } from '../../contracts/tool-source.contract.ts';
import { suite, verifies } from '../../verifies.ts';

const MCP = '/mcp.stream.v1.Mcp';

suite("grpcio, the C core's gRPC in Python, as the client of our server", missing, () => {
  verifies(
    ['S253', 'S254'],
    'it lists by stream, calls with progress, and gets failures in trailers',
    async () => {
      const { source } = ourCatalogue();
      await using offered = await offerGrpc(source);
      await using python = pythonClient(offered.url);
      const listed = await python.call(`${MCP}/ListTools`, [{}]);
      expect(listed).toMatchObject({ code: 'OK' });
      const items = listed.messages.flatMap(({ items: some }) => some as { name: string }[]);
      expect(items).toHaveLength(TOOL_COUNT);
      expect(items.map(({ name }) => name)).toEqual(
        (await toArray(source.listTools())).map(({ name }) => name),
      );
      const burst = { id: 'a', name: 'burst', argumentsJson: '{"count":10}' };
      const { messages } = await python.call(`${MCP}/CallTool`, [burst]);
      expect(messages.map((event) => Object.keys(event)[0])).toEqual([
        ...Array<string>(10).fill('progress'),
        'result',
      ]);
      const echo = { id: 'b', name: 'echo', argumentsJson: '{"text":"grüße 😀"}' };
      expect(await python.call(`${MCP}/CallTool`, [echo])).toMatchObject({
        messages: [{ result: { content: [{ text: 'grüße 😀' }] } }],
      });
      expect(await python.call(`${MCP}/CallTool`, [{ id: 'c', name: 'nöpe' }])).toMatchObject({
        messages: [],
        code: 'NOT_FOUND',
        details: 'unknown tool "nöpe"; list the tools for their names',
        trailers: { 'mcp-error-code': '-32602' },
      });
    },
  );

  test('its cancel and its deadline reach the handler', async () => {
    for (const options of [{ cancel_after: 1 }, { timeout: 2 }]) {
      const { source, slow } = ourCatalogue();
      await using offered = await offerGrpc(source);
      await using python = pythonClient(offered.url);
      const request = { id: 'a', name: 'slow', argumentsJson: '{"announce":true}' };
      const { messages, code } = await python.call(`${MCP}/CallTool`, [request], options);
      expect(messages).toEqual([{ progress: { progress: 1 } }]);
      expect(code).toBe('timeout' in options ? 'DEADLINE_EXCEEDED' : 'CANCELLED');
      await slow.aborted;
    }
  });

  test('it needs the token, finds the server healthy, and uses JSON-RPC through the tunnel', async () => {
    const { source } = ourCatalogue();
    await using offered = await offerGrpc(source, {
      token: 'secret',
      tunnel: (road) => serveMessages(source, road),
    });
    await using python = pythonClient(offered.url);
    expect(await python.call(`${MCP}/Discover`, [{}])).toMatchObject({ code: 'UNAUTHENTICATED' });
    const metadata = [['authorization', 'Bearer secret']];
    expect(await python.call(`${MCP}/Discover`, [{}], { metadata })).toMatchObject({
      messages: [{ name: 'ours' }],
    });
    const service = MCP.slice(1);
    expect(await python.call('/grpc.health.v1.Health/Check', [{ service }])).toMatchObject({
      messages: [{ status: 'SERVING' }],
    });
    const ping = Buffer.from('{"jsonrpc":"2.0","id":7,"method":"ping"}').toString('base64');
    const { messages } = await python.call('/mcp.stream.v1.Tunnel/Open', [{ json: ping }], {
      metadata,
      cancel_after: 1,
    });
    expect(JSON.parse(Buffer.from(String(messages[0]?.['json']), 'base64').toString())).toEqual({
      jsonrpc: '2.0',
      id: 7,
      result: {},
    });
  });
});

suite('grpcio as the server of our client', missing, () => {
  test('we list and call it, get its errors, and our cancels and deadlines end its calls', async () => {
    await using python = await pythonServer();
    await using far = await dialGrpc({ url: python.url });
    expect(far.info).toEqual({ name: 'python', version: '1' });
    const tools = await toArray(far.listTools());
    expect(tools.map(({ name }) => name)).toEqual(['t0', 't1', 't2', 't3', 't4', 't5']);
    expect(tools[0]?.inputSchema).toEqual({ type: 'object', title: 'ü' });
    expect(await toArray(far.callTool(call('echo', { a: '😀' })))).toEqual([
      { type: 'progress', progress: 1, total: 2 },
      { type: 'result', result: { content: [{ type: 'text', text: '{"a":"😀"}' }] } },
    ]);
    await expect(toArray(far.callTool(call('fail')))).rejects.toMatchObject({
      code: 'server',
      message: 'out of tea ☕',
    });
    for await (const event of far.callTool(call('wait'))) {
      expect(event).toEqual({ type: 'progress', progress: 1 });
      break;
    }
    expect(await python.heard()).toBe('over');
    const deadline = Date.now() + 2_000;
    await expect(toArray(far.callTool(call('late'), { deadline }))).rejects.toMatchObject({
      code: 'timeout',
    });
    const { remaining } = (await python.heard()) as { remaining: number };
    expect(remaining).toBeGreaterThan(0);
    expect(remaining).toBeLessThanOrEqual(2);
  });
});
