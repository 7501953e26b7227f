import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { PassThrough } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialTransport, offerStdio } from '../../src/mcp/json-rpc/stdio.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { Tool, ToolSource } from '../../src/mcp/types.ts';
import { encodeLine, JsonlDecoder, InvalidLine } from '../../src/wire/jsonl.ts';
import { httpServer } from '../a2a/support.ts';
import { childTransport } from '../support/child-transport.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';

const server = fileURLToPath(new URL('../fixtures/bad-mcp-server.mjs', import.meta.url));

interface Peer extends AsyncDisposable {
  readonly source: ToolSource;
}

const ROADS: Readonly<Record<string, (mode: string) => Promise<Peer>>> = {
  async stdio(mode) {
    const transport = childTransport([server, 'stdio', mode]);
    const source = await dialTransport(transport);
    return {
      source,
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]();
        await transport.exited;
      },
    };
  },
  async http(mode) {
    const child = spawn(process.execPath, [server, 'http', mode], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const exited = once(child, 'exit');
    const [port] = (await once(createInterface(child.stdout), 'line')) as [string];
    const source = await dialHttp({ url: `http://127.0.0.1:${port}/mcp`, protocol: 'session' });
    return {
      source,
      async [Symbol.asyncDispose]() {
        await source[Symbol.asyncDispose]();
        child.stdin.end();
        await exited;
      },
    };
  },
};

/** What a list gave before it ended, and how it did. */
async function listed(source: ToolSource, upTo = Infinity): Promise<[string[], unknown]> {
  const names: string[] = [];
  try {
    for await (const { name } of source.listTools()) if (names.push(name) >= upTo) break;
    return [names, undefined];
  } catch (error) {
    return [names, (error as { code?: unknown }).code];
  }
}

const sockets = (): number =>
  process.getActiveResourcesInfo().filter((each) => /Socket|Pipe|Process/.test(each)).length;

for (const [road, open] of Object.entries(ROADS))
  describe(`a server over ${road} that breaks the rules`, () => {
    const cases: readonly [string, string, readonly string[], RegExp | undefined][] = [
      ['dies in mid-list', 'dies', ['a'], /^(peer_exited|network|response_lost)$/],
      ['dies in mid-frame', 'half', ['a'], /^(peer_exited|network|response_lost|malformed)$/],
      ['responds to unknown ids', 'ids', ['a'], undefined],
      ['gives its cursors again', 'loop', ['t1', 't2', 't3', 't4'], /^malformed$/],
      ['has a schema that is not an object', 'schema', ['a'], /^malformed$/],
      ['has a tool of 12 MB', 'huge', ['a'], undefined],
    ];
    test.each(cases)('%s', async (_, mode, names, code) => {
      const before = sockets();
      {
        await using peer = await open(mode);
        const [found, failure] = await listed(peer.source);
        expect(found).toEqual(names);
        if (code) expect(failure).toMatch(code);
        else expect(failure).toBeUndefined();
      }
      await expect.poll(sockets).toBeLessThanOrEqual(before);
    });

    test('sends invalid messages: over a pipe they are skipped, over HTTP the response is `malformed`', async () => {
      await using peer = await open('junk');
      const wanted = road === 'stdio' ? [['a'], undefined] : [[], 'malformed'];
      expect(await listed(peer.source)).toEqual(wanted);
      expect(await toArray(peer.source.callTool(call('count')))).toHaveLength(1);
    });

    test('has an endless list: the reader ends it', async () => {
      await using peer = await open('endless');
      const [found] = await listed(peer.source, 50);
      expect(found).toHaveLength(50);
      expect(await toArray(peer.source.callTool(call('count')))).toMatchObject([
        { result: { content: [{ text: '50' }] } },
      ]);
    });
  });

/** A transport of lines inside this process. */
function lineRoad(source: ToolSource): Promise<ToolSource & AsyncDisposable> {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const serving = offerStdio(source, { input: there, output: back });
  const decoder = new JsonlDecoder();
  return dialMessages({
    incoming: (async function* () {
      for await (const chunk of back)
        for (const message of decoder.decode(chunk as Uint8Array))
          if (!(message instanceof InvalidLine)) yield message;
    })(),
    async send(message) {
      if (!there.write(encodeLine(message))) await once(there, 'drain');
    },
    async close() {
      there.end();
      await serving.done;
      back.end();
    },
  });
}

describe('1,100 cancels in a row', () => {
  const roads = {
    'lines of JSON': async (source: ToolSource) => lineRoad(source),
    'HTTP with sessions': async (source: ToolSource) => overHttp(source, 'session'),
    'HTTP without': async (source: ToolSource) => overHttp(source, 'stateless'),
  };
  async function overHttp(
    source: ToolSource,
    protocol: 'session' | 'stateless',
  ): Promise<ToolSource & AsyncDisposable> {
    const offered = await offerHttp(source);
    const dialled = await dialHttp({ url: offered.url, protocol });
    return {
      ...dialled,
      async [Symbol.asyncDispose]() {
        await dialled[Symbol.asyncDispose]();
        await offered[Symbol.asyncDispose]();
      },
    };
  }

  test.each(Object.entries(roads))('hurt no other call: %s', async (_, open) => {
    let [release, running] = [(): void => {}, 0];
    const held = new Promise<void>((resolve) => (release = resolve));
    const registry = createRegistry({
      name: 'cancels',
      tools: [
        tool('hold', 'Is held', {}, async () => held.then(() => 'held')),
        tool('wait', 'Waits for its cancel', {}, async (_args, ctx) => {
          running += 1;
          await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
          running -= 1;
          return 'too late';
        }),
      ],
    });
    await using source = await open(registry);
    const bystander = toArray(source.callTool(call('hold')));
    for (let batch = 0; batch < 11; batch += 1) {
      const stops = Array.from({ length: 100 }, () => new AbortController());
      const calls = stops.map(({ signal }) =>
        toArray(source.callTool(call('wait'), { signal })).catch((error: unknown) => error),
      );
      await expect.poll(() => running, { timeout: 60_000 }).toBe(100);
      const reason = new Error('enough');
      for (const stop of stops) stop.abort(reason);
      expect(new Set(await Promise.all(calls))).toEqual(new Set([reason]));
      await expect.poll(() => running, { timeout: 60_000 }).toBe(0);
    }
    release();
    expect(await bystander).toEqual([
      { type: 'result', result: { content: [{ type: 'text', text: 'held' }] } },
    ]);
  });
});

describe('a reader that stops forever', () => {
  const roads = [
    ['lines', lineRoad],
    ['HTTP', undefined],
  ] as const;
  test.each(roads)('stops the producer within a page: %s', async (_, open) => {
    let produced = 0;
    const source: ToolSource = {
      info: { name: 'much', version: '1' },
      async *listTools() {
        for (;;) {
          produced += 1;
          yield { name: `t${produced}`, inputSchema: { type: 'object' } } satisfies Tool;
        }
      },
      async *callTool() {
        yield { type: 'result', result: { content: [] } };
      },
    };
    await using offered = await offerHttp(source);
    await using dialled = open
      ? await open(source)
      : await dialHttp({ url: offered.url, protocol: 'stateless' });
    const items = dialled.listTools()[Symbol.asyncIterator]();
    await items.next();
    // Something that takes its time: whatever would run ahead has all of it.
    for (let n = 0; n < 20; n += 1) await toArray(dialled.callTool(call('any')));
    expect(produced).toBe(1_000 + 1);
    await items.return?.();
  });
});

test('a JSON response that is cut: a call may have run, a list has not', async () => {
  await using server = await httpServer((request, response, body) => {
    const { id, method } = body === '' ? {} : (JSON.parse(body) as { id?: number; method: string });
    if (request.method !== 'POST') return void response.writeHead(405).end();
    if (id === undefined) return void response.writeHead(202).end();
    response.writeHead(200, { 'content-type': 'application/json' });
    if (method !== 'initialize')
      return void response.write('{"jsonrpc":', () => response.destroy());
    const result = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'cut', version: '1' },
    };
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  });
  await using source = await dialHttp({ url: server.url, protocol: 'session' });
  await expect(toArray(source.callTool(call('a')))).rejects.toMatchObject({
    code: 'response_lost',
  });
  await expect(toArray(source.listTools())).rejects.toMatchObject({ code: 'network' });
});

test('a server that does not respond to initialized is a timeout', async () => {
  await using server = await httpServer((request, response, body) => {
    const { id } = body === '' ? {} : (JSON.parse(body) as { id?: number });
    if (request.method !== 'POST') return void response.writeHead(405).end();
    if (id === undefined) return; // no response
    const result = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      serverInfo: { name: 'silent', version: '1' },
    };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  });
  await expect(dialHttp({ url: server.url, protocol: 'session' })).rejects.toMatchObject({
    code: 'timeout',
  });
});
