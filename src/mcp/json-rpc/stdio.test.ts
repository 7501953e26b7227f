import { PassThrough, Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createRegistry } from '../registry/registry.ts';
import { tool } from '../registry/tool.ts';
import { call, toArray } from '../../../test/contracts/tool-source.contract.ts';
import { dialStdio, offerStdio } from './stdio.ts';

/** A client that has called a tool and reads no event of the tool. */
async function stuck() {
  const input = new PassThrough();
  let blocked = (): void => {};
  const full = new Promise<void>((resolve) => (blocked = resolve));
  const output = new Writable({ highWaterMark: 1, write: () => blocked() });
  const flood = tool('flood', '', {}, async (_, ctx) => {
    for (let count = 0; !ctx.signal.aborted; count += 1) await ctx.progress(count);
    return 'aborted';
  });
  const serving = offerStdio(createRegistry({ name: 'flood', tools: [flood] }), { input, output });
  const params = { name: 'flood', arguments: {}, _meta: { progressToken: 1 } };
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })}\n`);
  await full;
  return { input, output, serving };
}

test('a client that ends the input and reads nothing is not awaited', async () => {
  const { input, serving } = await stuck();
  input.end();
  await expect(serving.done).resolves.toBeUndefined();
});

test('a client whose output closes while a message waits is not awaited', async () => {
  const { input, output, serving } = await stuck();
  output.destroy();
  input.end();
  await expect(serving.done).resolves.toBeUndefined();
});

test('disposing does not wait for a client that reads nothing', async () => {
  const { serving } = await stuck();
  await expect(serving[Symbol.asyncDispose]()).resolves.toBeUndefined();
});

test('a server that cannot be started is reported', async () => {
  const dialled = dialStdio({ command: '/nowhere/server', args: [], env: {} });
  await expect(dialled).rejects.toMatchObject({
    code: 'not_found',
    message: expect.stringContaining('/nowhere/server') as string,
  });
});

test('a server that stops reading fails its calls', async () => {
  const script = `
    const { closeSync, readSync } = require('node:fs');
    const line = Buffer.alloc(10_000);
    const { id } = JSON.parse(line.toString('utf8', 0, readSync(0, line)));
    const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: {} };
    closeSync(0);
    console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
    setInterval(() => {}, 1000);`;
  const args = ['-e', script];
  const source = await dialStdio({ command: process.execPath, args, env: {}, graceMs: 1 });
  const failed = { code: expect.stringMatching(/^(closed|peer_exited)$/) as string };
  await expect(toArray(source.callTool(call('a')))).rejects.toMatchObject(failed);
  await expect(toArray(source.listTools())).rejects.toMatchObject(failed);
  await source[Symbol.asyncDispose]();
});
