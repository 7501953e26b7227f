import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Agent } from '../../src/event/types.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { serve } from '../../src/serve/serve.ts';
import { memoryLog } from '../../src/task/memory/memory-log.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { verifies } from '../verifies.ts';

const silent: Agent = async function* () {};
const tools = createRegistry({
  name: 'desk',
  tools: [tool('echo', 'Gives the text back', { text: z.string() }, ({ text }) => text)],
});

verifies(
  'S232',
  'the tools of a served agent can be dialled over MCP, with both protocols',
  async () => {
    await using served = await serve(silent, { log: memoryLog(), tools });
    for (const protocol of ['session', 'stateless'] as const) {
      await using source = await dialHttp({ url: `${served.url}/mcp`, protocol });
      expect(source.info.name).toBe('desk');
      expect(await toArray(source.callTool(call('echo', { text: protocol })))).toEqual([
        { type: 'result', result: { content: [{ type: 'text', text: protocol }] } },
      ]);
    }
  },
);

test('a caller that may not use the agent may not use its tools', async () => {
  await using served = await serve(silent, {
    log: memoryLog(),
    tools,
    auth: { bearer: 'secret' },
  });
  const url = `${served.url}/mcp`;
  await expect(dialHttp({ url })).rejects.toMatchObject({ code: 'unauthorized', status: 401 });
  await using source = await dialHttp({ url, headers: { authorization: 'Bearer secret' } });
  expect(await toArray(source.listTools())).toHaveLength(1);
});

test('a body beyond limits.maxBodyBytes is refused, as everywhere', async () => {
  const limits = { maxBodyBytes: 1000 };
  await using served = await serve(silent, { log: memoryLog(), tools, limits });
  const response = await fetch(`${served.url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'ping',
      params: { x: 'y'.repeat(1000) },
    }),
  });
  expect(response.status).toBe(413);
});

test('without tools the endpoint does not exist', async () => {
  await using served = await serve(silent, { log: memoryLog() });
  await expect(dialHttp({ url: `${served.url}/mcp` })).rejects.toMatchObject({ status: 404 });
});

test('the tools of an agent are the skills of its card, unless the card names its own', async () => {
  const cardOf = async (url: string): Promise<unknown> =>
    (await fetch(`${url}/.well-known/agent-card.json`)).json();
  await using served = await serve(silent, { log: memoryLog(), tools });
  expect(await cardOf(served.url)).toMatchObject({
    skills: [{ id: 'echo', name: 'echo', description: 'Gives the text back', tags: ['tool'] }],
  });
  const skills = [{ id: 'own', name: 'Own', description: 'Its own' }];
  await using named = await serve(silent, { log: memoryLog(), tools, card: { skills } });
  expect(await cardOf(named.url)).toMatchObject({ skills: [{ id: 'own' }] });
});
