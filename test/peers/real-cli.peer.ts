import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { spawnProcess } from '../../src/process/index.ts';
import { LineHost } from '../support/json-lines.ts';
import { startModelServer } from '../support/model-server.ts';
import { isAlive, tidy } from '../support/processes.ts';
import { findRealCli, REAL_CLIS, realCli, type RealCliName } from '../support/real-cli.ts';
import { suite } from '../verifies.ts';

for (const name of Object.keys(REAL_CLIS) as RealCliName[]) {
  const { command: program, missing } = await findRealCli(name);

  suite(name, missing, () => {
    test('the scripted model answers a prompt, and end of input ends the CLI', async () => {
      await using model = await startModelServer([{ text: 'hello from the script' }]);
      await using place = realCli({ command: program, modelUrl: model.url });
      await using peer = spawnProcess(place);
      const host = new LineHost(peer);
      host.request('i1', { subtype: 'initialize' });
      host.prompt('Say hello');
      const result = await host.until({ type: 'result' });
      expect(result).toMatchObject({ subtype: 'success', result: 'hello from the script' });
      expect(host.seen.some((line) => line.includes('"request_id":"i1"'))).toBe(true);
      expect(model.calls[0]).toMatchObject({ api: 'anthropic' });
      expect(model.calls[0]?.headers['x-api-key']).toBe('dummy-key-for-loopback');
      peer.endInput();
      await host.rest();
      expect(await peer.exited).toMatchObject({ code: 0 });
    });

    test('an in-process tool is called through mcp_message and its result reaches the model', async () => {
      const input = { a: 2, b: 3 };
      await using model = await startModelServer([
        { tools: [{ id: 'toolu_1', name: 'mcp__calc__add', input }] },
        { text: 'five' },
      ]);
      const args = ['--allowedTools=mcp__calc__add'];
      await using place = realCli({ command: program, modelUrl: model.url, args });
      await using peer = spawnProcess(place);
      const host = new LineHost(peer);
      host.request('i1', { subtype: 'initialize', sdkMcpServers: ['calc'] });
      host.prompt('2 + 3?');
      for (;;) {
        const frame = await host.until({ type: 'control_request' });
        const { message } = frame['request'] as { message: JsonObject };
        host.answer(frame, { mcp_response: answerAsCalc(message) });
        if (message['method'] === 'tools/call') break;
      }
      expect(await host.until({ type: 'result' })).toMatchObject({ result: 'five' });
      expect(JSON.stringify(model.calls[1]?.body['messages'])).toContain('the sum is 5');
    });

    test('closing during a shell command also ends the command, which is in another process group', async () => {
      const command = 'echo $$ > pid; tail -f /dev/null';
      const input = { command, description: 'Waits', timeout: 600_000 };
      await using model = await startModelServer([{ tools: [{ name: 'Bash', input }] }]);
      const args = ['--allowedTools=Bash'];
      await using place = realCli({ command: program, modelUrl: model.url, args });
      const peer = spawnProcess({ ...place, graceMs: 200 });
      const host = new LineHost(peer);
      host.prompt('wait');
      await host.until({ type: 'assistant' });
      const file = join(place.cwd, 'pid');
      await expect.poll(() => existsSync(file), { timeout: 30_000 }).toBe(true);
      const shell = Number(readFileSync(file, 'utf8'));
      tidy([shell]);
      expect(isAlive(shell)).toBe(true);
      await peer[Symbol.asyncDispose]();
      expect([shell, peer.pid!].filter(isAlive)).toEqual([]);
    });

    test('closing during a model call ends the process and closes the connection', async () => {
      await using model = await startModelServer([
        { text: 'never', fail: { after: 2, how: 'hang' } },
      ]);
      await using place = realCli({ command: program, modelUrl: model.url });
      const peer = spawnProcess({ ...place, graceMs: 200 });
      const host = new LineHost(peer);
      host.prompt('hi');
      await host.until({ type: 'system', subtype: 'init' });
      await expect.poll(() => model.calls.length, { timeout: 30_000 }).toBe(1);
      await peer[Symbol.asyncDispose]();
      expect(await model.calls[0]?.closed).toBe('dropped');
      expect(isAlive(peer.pid!)).toBe(false);
    });
  });
}

function answerAsCalc({ id, method }: JsonObject): JsonObject {
  const inputSchema = {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
  };
  const results: Readonly<Record<string, JsonObject>> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'calc', version: '1.0.0' },
    },
    'tools/list': { tools: [{ name: 'add', description: 'Adds', inputSchema }] },
    'tools/call': { content: [{ type: 'text', text: 'the sum is 5' }] },
  };
  return { jsonrpc: '2.0', id: id ?? 0, result: results[String(method)] ?? {} };
}
