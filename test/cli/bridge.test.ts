import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dialGrpc, offerGrpc } from '../../src/mcp/grpc/index.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { suite } from '../verifies.ts';
import { expectNoStack, missingPty, Place } from './support.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MCP = JSON.stringify(pathToFileURL(join(ROOT, 'dist/mcp/index.js')).href);
const SERVER = `
  import { createRegistry, offerStdio, tool } from ${MCP};
  const registry = createRegistry({ name: 'demo', version: '1' });
  registry.register(tool('add', 'Adds', { type: 'object', properties: { a: {}, b: {} } },
    async ({ a, b }, ctx) => { await ctx.progress(1, 2, 'half-way'); return String(a + b); }));
  await offerStdio(registry).done;`;

let place: Place;
beforeAll(async () => {
  place = await Place.open();
});
afterAll(async () => {
  await place[Symbol.asyncDispose]();
});

describe('duolane bridge', () => {
  test('from stdio to gRPC, counting; and from there on to HTTP', async () => {
    const server = `stdio:'${process.execPath}' "${await place.write('server.mjs', SERVER)}"`;
    const first = place.start(['bridge', server, 'grpc://127.0.0.1:0', '--json']);
    const [, grpc = ''] = await first.says(/"url":"(grpc:[^"]+)"/);
    const second = place.start(['bridge', grpc, 'http://127.0.0.1:0', '--json']);
    const [, http = ''] = await second.says(/"url":"(http:[^"]+)"/);

    expect((await place.run(['tools', grpc])).stdout).toMatch(/^add {2}Adds/);
    const called = await place.run(['tools', http, 'add', '{"a":2,"b":3}']);
    expect(called).toMatchObject({ code: 0, stdout: '5\n' });
    expect(called.stderr).toContain('1/2 half-way');

    await first.says(/"lists":1,"items":1,"calls":1,"events":1,"open":0,"canceled":0,"failed":0/);
    for (const running of [second, first]) {
      running.child.kill('SIGINT');
      expect((await running.end()).code).toBe(0);
    }
  });

  test('to clients of the transport before Streamable HTTP', async () => {
    const registry = createRegistry({ name: 'demo', tools: [tool('hi', '', {}, () => 'hello')] });
    await using offered = await offerGrpc(registry);
    const running = place.start(['bridge', offered.url, 'sse://127.0.0.1:0', '--json']);
    const [, url = ''] = await running.says(/"url":"(sse:[^"]+)"/);
    expect(await place.run(['tools', url, 'hi'])).toMatchObject({ code: 0, stdout: 'hello\n' });
    running.child.kill('SIGINT');
    await running.end();
  });

  test.each(['grpc', 'http', 'sse'])(
    'a %s address that other machines reach needs a token, or a flag',
    async (scheme) => {
      await using offered = await offerGrpc(createRegistry({ name: 'demo' }));
      const to = `${scheme}://0.0.0.0:0`;
      const refused = await place.run(['bridge', offered.url, to]);
      expect(refused.code).toBeGreaterThan(0);
      expect(refused.stderr).toMatch(/every machine that reaches .* could call the tools/);
      const open = place.start(['bridge', offered.url, to, '--anonymous']);
      await open.says(/0\.0\.0\.0:\d+/);
      open.child.kill('SIGINT');
      await open.end();
    },
  );

  test('refuses HTTP clients without the token, and accepts any host name with it', async () => {
    const registry = createRegistry({ name: 'demo', tools: [tool('hi', '', {}, () => 'hello')] });
    await using offered = await offerHttp(registry);
    const running = place.start([
      'bridge',
      offered.url,
      'http://0.0.0.0:0',
      '--json',
      '--require-token=t',
      '--protocol=session',
    ]);
    const [, port = ''] = await running.says(/"url":"http:\/\/0\.0\.0\.0:(\d+)/);
    const url = `http://127.0.0.1:${port}/mcp`;
    expect((await place.run(['tools', url])).stderr).toContain('HTTP 401');
    const called = await place.run(['tools', url, 'hi', '--token=t']);
    expect(called).toMatchObject({ code: 0, stdout: 'hello\n' });
    await running.says(/"calls":1/);
    running.child.kill('SIGINT');
    await running.end();
  });

  test.each([
    ['grpc', 'grpc://127.0.0.1:PORT'],
    ['sse', 'sse://127.0.0.1:PORT/sse'],
  ])('refuses %s clients without the token, also beyond this machine', async (scheme, address) => {
    const registry = createRegistry({ name: 'demo', tools: [tool('hi', '', {}, () => 'hello')] });
    await using offered = await offerHttp(registry);
    const running = place.start([
      'bridge',
      offered.url,
      `${scheme}://0.0.0.0:0`,
      '--json',
      '--require-token=t',
      '--protocol=stateless',
    ]);
    const [, port = ''] = await running.says(/"url":"\w+:\/\/0\.0\.0\.0:(\d+)/);
    const url = address.replace('PORT', port);
    const refused = await place.run(['tools', url, 'hi']);
    expect(refused.code).toBeGreaterThan(0);
    expect(refused.stderr).toMatch(/token|401/);
    const called = await place.run(['tools', url, 'hi', '--token=t']);
    expect(called).toMatchObject({ code: 0, stdout: 'hello\n' });
    running.child.kill('SIGINT');
    await running.end();
  });

  test('as a server that a client starts, on its own stdin and stdout', async () => {
    const registry = createRegistry({ name: 'demo', tools: [tool('hi', '', {}, () => 'hello')] });
    await using offered = await offerHttp(registry);
    const command = join(ROOT, 'dist/cli/duolane.js');
    const source = `stdio:'${process.execPath}' "${command}" bridge ${offered.url} stdio:`;
    expect(await place.run(['tools', source, 'hi'])).toMatchObject({ code: 0, stdout: 'hello\n' });
  });

  test.each([
    ['no addresses', ['bridge'], /missing arguments <from> <to>/],
    [
      'an unknown protocol',
      ['bridge', 'http://127.0.0.1:1/mcp', 'stdio:', '--protocol=old'],
      /invalid --protocol "old"/,
    ],
    ['an invalid <to>', ['bridge', 'http://127.0.0.1:1/mcp', 'grpc:'], /invalid <to> "grpc:"/],
    ['a server that is not there', ['bridge', 'grpc://127.0.0.1:1', 'stdio:'], /cannot be reached/],
  ])('%s is reported in plain text', async (_name, args, words) => {
    const ended = await place.run(args);
    expect(ended.code).toBeGreaterThan(0);
    expect(ended.stderr).toMatch(words);
    expectNoStack(ended);
  });
});

suite('a pseudo terminal', missingPty, () => {
  test('duolane bridge shows live counters on a terminal', async () => {
    const registry = createRegistry({ name: 'demo', tools: [tool('hi', '', {}, () => 'hello')] });
    await using offered = await offerHttp(registry);
    const running = place.start(['bridge', offered.url, 'grpc://127.0.0.1:0'], { pty: true });
    const [, url = ''] = await running.says(/(grpc:\/\/[\d.:]+)/);
    await using far = await dialGrpc({ url });
    expect(await toArray(far.callTool(call('hi')))).toHaveLength(1);
    await running.says(/\r.{0,20}lists 0 \(0 items\) {2}calls 1 \(0 events\)/);
    running.child.kill('SIGINT');
    await running.end();
  });
});
