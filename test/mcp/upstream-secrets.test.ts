import { expect, test } from 'vitest';
import { DuolaneError } from '../../src/errors.ts';
import { listen } from '../../src/http/index.ts';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import {
  createRegistry,
  dialHttp,
  dialStdio,
  mcpHandler,
  offerMessages,
  tool,
  type ToolSource,
} from '../../src/mcp/index.ts';

/** What a caller of a server gets that offers the tools of another one, and what is logged. */
async function callThrough(source: ToolSource): Promise<{ shown: string; logged: string }> {
  const logged: unknown[] = [];
  await using end = offerMessages(source, { onError: (error) => logged.push(error) });
  const params = { name: 'echo', arguments: {} };
  const answer = await end.receive({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  return { shown: JSON.stringify(answer), logged: logged.map(String).join('\n') };
}

test.each([
  [
    'a page',
    () => new Response('<p>hunter2</p>', { headers: { 'content-type': 'text/html' } }),
    false,
  ],
  [
    'a redirect',
    () =>
      new Response(null, { status: 307, headers: { location: 'https://sso.example/?hunter2' } }),
    true,
  ],
  ['an error', () => new Response('the password hunter2 is wrong', { status: 500 }), true],
])(
  'a caller does not see the address of a tool server that responds with %s',
  async (_, failing, isLogged) => {
    const tools = createRegistry({ name: 'far', tools: [tool('echo', 'e', {}, () => 'hi')] });
    await using far = mcpHandler(tools);
    let isFailing = false;
    await using server = await listen(async (request) =>
      isFailing ? failing() : far.handle(request),
    );
    await using source = await dialHttp({ url: `${server.url}/hunter2/mcp?key=hunter2` });
    expect((await callThrough(source)).shown).toContain('hi');
    isFailing = true;
    const { shown, logged } = await callThrough(source);
    expect(shown).toContain('"error"');
    expect(shown).not.toContain('hunter2');
    expect(logged !== '').toBe(isLogged);
  },
);

test('a caller does not see the stderr of a tool server that exits; the log has it', async () => {
  const script = `
    const initialize = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'far', version: '1' } };
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { id, method } = JSON.parse(line);
      if (method === 'initialize') console.log(JSON.stringify({ jsonrpc: '2.0', id, result: initialize }));
      else if (method === 'tools/call') {
        console.error('cannot connect to postgres://me:hunter2@db/');
        process.exit(1);
      } else if (id !== undefined)
        console.log(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown method' } }));
    });`;
  await using source = await dialStdio({
    command: process.execPath,
    args: ['-e', script],
    env: {},
  });
  const { shown, logged } = await callThrough(source);
  expect(shown).toContain('"error"');
  expect(shown).not.toContain('hunter2');
  expect(logged).toContain('hunter2');
});

test('over gRPC, too, a withheld text is reported on the server', async () => {
  const registry = createRegistry({ name: 'far' });
  const source: ToolSource = Object.assign(Object.create(registry) as ToolSource, {
    async *listTools() {
      yield* [];
      throw new DuolaneError('network', 'cannot reach http://10.0.0.9/?key=hunter2');
    },
  });
  const logged: unknown[] = [];
  await using offered = await offerGrpc(source, { onError: (error) => void logged.push(error) });
  await using client = await dialGrpc({ url: offered.url });
  const list = (async () => {
    for await (const _ of client.listTools());
  })();
  await expect(list).rejects.not.toThrow('hunter2');
  expect(logged.map(String).join()).toContain('hunter2');
});
