import { expect, test, vi } from 'vitest';
import { createRegistry } from '../mcp/registry/registry.ts';
import type { Agent } from '../event/types.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { serve } from './serve.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

/** Deep enough that JSON.parse needs long, and that a walk over the value would overflow the stack. */
const DEPTH = 200_000;
const deep = `${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}`;
/** Flat and within the limit of bytes, but millions of values. */
const many = `[${'{},'.repeat(600_000)}{}]`;

const rpc = (method: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":${deep}}]}}}`;

const cases = [
  ['/a2a', rpc('SendMessage'), { 'a2a-version': '1.0' }, -32602],
  ['/a2a', rpc('message/send'), {}, -32602],
  ['/a2a/agent/message:send', `{"message":${deep}}`, { 'a2a-version': '1.0' }, 400],
  ['/api/agents/agent/turns', `{"data":${deep}}`, {}, 'invalid'],
  ['/ui/agent', `{"id":"c","messages":${deep}}`, {}, 'invalid'],
  ['/ag-ui/agent', `{"threadId":"c","messages":${deep}}`, {}, 'invalid'],
  ['/stream-json/agent', `{"type":"user","message":${deep}}`, {}, 'invalid'],
  ['/mcp', rpc('tools/call'), { accept: 'application/json, text/event-stream' }, -32600],
] as const;

test.each(
  cases.flatMap(([path, body, more, code]) => [
    [path, 'is nested more than 500 levels deep', body, more, code] as const,
    [path, 'has more than 1000000 values', body.replace(deep, many), more, code] as const,
  ]),
)('%s refuses a body that %s, without parsing it', async (path, problem, body, more, code) => {
  const tools = createRegistry({ name: 'tools', version: '1' });
  await using served = await serve(hello, { log: memoryLog(), page: false, tools });
  const parse = vi.spyOn(JSON, 'parse');
  try {
    const headers = { 'content-type': 'application/json', ...(more as Record<string, string>) };
    const response = await fetch(`${served.url}${path}`, { method: 'POST', headers, body });
    const text = await response.text();
    const parsed = parse.mock.calls.filter(([given]) => given.length > DEPTH);
    expect(parsed).toEqual([]);
    const { error } = JSON.parse(text) as { error: { code: unknown; message: string } };
    expect(error.code).toBe(code);
    expect(error.message).toContain(problem);
    expect(text).not.toContain('-32603');
  } finally {
    parse.mockRestore();
  }
});
