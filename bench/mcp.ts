/**
 * Compares our MCP client and server with those of the official SDK (v2). The pairs alternate, each
 * server in a separate process: `npx tsx bench/mcp.ts [--rounds=3] [--json]`. Installs the peer
 * `mcp-sdk`.
 *
 * The `MaxListenersExceededWarning`s are those of the SDK: its HTTP client gives the signal of the
 * connection to every `fetch`, and its stdio server waits for `drain` once for each message.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { ensurePeer } from '../scripts/peers.mjs';
import type { JsonObject } from '../src/json.ts';
import { dialHttp } from '../src/mcp/json-rpc/http/client/dial-http.ts';
import { dialStdio } from '../src/mcp/json-rpc/stdio.ts';
import type { ToolSource } from '../src/mcp/types.ts';
import { median, report, type Row } from './support.ts';

const TOOLS = 10_000;
const CALLS = 1_000;
const IN_FLIGHT = 64;
const BURSTS = 200;
const LISTS = 5;
const LONG = 200_000;
const ROUNDS = Number(/--rounds=(\d+)/.exec(process.argv.join(' '))?.[1] ?? 3);

const server = fileURLToPath(new URL('./fixtures/mcp-server.ts', import.meta.url));
const peer = await ensurePeer('mcp-sdk');
if (!peer.available) throw new Error(peer.reason);
const load = createRequire(new URL('../peers/mcp-sdk/package.json', import.meta.url));
const argsOf = (who: string, transport: string, tools: number): string[] => [
  '--import',
  'tsx',
  server,
  who,
  transport,
  String(tools),
];

interface Pair extends AsyncDisposable {
  list(): Promise<{ readonly firstMs: number; readonly count: number }>;
  call(text: string): Promise<unknown>;
  /** How many of its ten progress messages arrived. */
  burst(): Promise<number>;
}

async function httpServer(
  who: string,
  tools: number,
): Promise<{ url: string; child: ChildProcess }> {
  const child = spawn(process.execPath, argsOf(who, 'http', tools), {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [url] = (await once(createInterface(child.stdout!), 'line')) as [string];
  return { url, child };
}

async function ours(transport: string, tools = TOOLS): Promise<Pair> {
  const http = transport === 'http' ? await httpServer('ours', tools) : undefined;
  const source: ToolSource & AsyncDisposable = http
    ? await dialHttp({ url: http.url, protocol: 'session' })
    : await dialStdio({
        command: process.execPath,
        args: argsOf('ours', 'stdio', tools),
        cwd: process.cwd(),
        env: process.env as Record<string, string>,
      });
  const events = async (name: string, text: string): Promise<number> => {
    let count = 0;
    for await (const { type } of source.callTool({ id: text, name, args: { text } }))
      if (type === 'progress') count += 1;
    return count;
  };
  return {
    async list() {
      const start = performance.now();
      let [count, firstMs] = [0, 0];
      for await (const tool of source.listTools()) {
        if (count === 0 && tool) firstMs = performance.now() - start;
        count += 1;
      }
      return { firstMs, count };
    },
    call: (text) => events('echo', text),
    burst: () => events('burst', 'x'),
    async [Symbol.asyncDispose]() {
      await source[Symbol.asyncDispose]();
      http?.child.kill();
    },
  };
}

interface SdkClient {
  connect(transport: unknown): Promise<void>;
  close(): Promise<void>;
  listTools(): Promise<{ tools: unknown[] }>;
  callTool(params: JsonObject, options?: JsonObject): Promise<unknown>;
}

async function sdk(transport: string): Promise<Pair> {
  const { Client, StreamableHTTPClientTransport: Http } = load('@modelcontextprotocol/client') as {
    Client: new (info: JsonObject) => SdkClient;
    StreamableHTTPClientTransport: new (url: URL) => unknown;
  };
  const { StdioClientTransport: Stdio } = load('@modelcontextprotocol/client/stdio') as {
    StdioClientTransport: new (options: JsonObject) => unknown;
  };
  const client = new Client({ name: 'bench', version: '1' });
  const http = transport === 'http' ? await httpServer('sdk', TOOLS) : undefined;
  await client.connect(
    http
      ? new Http(new URL(http.url))
      : new Stdio({ command: process.execPath, args: argsOf('sdk', 'stdio', TOOLS) }),
  );
  return {
    async list() {
      const start = performance.now();
      const { tools } = await client.listTools();
      return { firstMs: performance.now() - start, count: tools.length };
    },
    call: (text) => client.callTool({ name: 'echo', arguments: { text } }),
    async burst() {
      let count = 0;
      const onprogress = (): unknown => (count += 1);
      await client.callTool({ name: 'burst', arguments: { text: 'x' } }, { onprogress });
      return count;
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      http?.child.kill();
    },
  };
}

async function callAll(pair: Pair): Promise<number> {
  const start = performance.now();
  let next = 0;
  const worker = async (): Promise<void> => {
    while ((next += 1) <= CALLS) await pair.call(`text ${next}`);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return (CALLS / (performance.now() - start)) * 1_000;
}

interface Figures {
  readonly firstMs: number;
  readonly listMs: number;
  readonly callsPerSecond: number;
  readonly progress: number;
}

async function measure(open: () => Promise<Pair>): Promise<Figures> {
  await using pair = await open();
  await pair.call('warm');
  const lists: { readonly firstMs: number; readonly listMs: number }[] = [];
  for (let n = 0; n < LISTS; n += 1) {
    const start = performance.now();
    const { firstMs, count } = await pair.list();
    if (count !== TOOLS) throw new Error(`${count} tools of ${TOOLS}`);
    lists.push({ firstMs, listMs: performance.now() - start });
  }
  for (let warm = 0; warm < 3; warm++) await callAll(pair); // until V8 has optimized the code of both
  const callsPerSecond = await callAll(pair);
  const bursts = await Promise.all(Array.from({ length: BURSTS }, () => pair.burst()));
  return {
    firstMs: median(lists.map(({ firstMs }) => firstMs)),
    listMs: median(lists.map(({ listMs }) => listMs)),
    callsPerSecond,
    progress: bursts.reduce((sum, n) => sum + n, 0),
  };
}

/** The memory growth of a process that reads a list with a hundred times as many pages. */
async function growth(transport: string): Promise<number> {
  await using pair = await ours(transport, LONG);
  await pair.list();
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  let peak = before;
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 5);
  await pair.list();
  clearInterval(timer);
  return (peak - before) / 1024 / 1024;
}

const rows: Row[] = [];
for (const transport of ['stdio', 'http']) {
  const rounds: { ours: Figures; sdk: Figures }[] = [];
  for (let round = 0; round < ROUNDS; round += 1)
    rounds.push({
      ours: await measure(() => ours(transport)),
      sdk: await measure(() => sdk(transport)),
    });
  const of = (who: 'ours' | 'sdk', key: keyof Figures): number =>
    median(rounds.map((round) => round[who][key]));
  // A ratio compares two consecutive runs, so that load of the machine affects both.
  const ratio = (key: keyof Figures): number =>
    median(rounds.map((round) => round.ours[key] / round.sdk[key]));
  const add = (name: string, value: number, unit: string, limit: Partial<Row> = {}): unknown =>
    rows.push({ name: `${transport}: ${name}`, value, unit, ...limit });
  add('first tool', of('ours', 'firstMs'), 'ms');
  add('first tool, SDK', of('sdk', 'firstMs'), 'ms');
  add(`${TOOLS} tools`, of('ours', 'listMs'), 'ms');
  add(`${TOOLS} tools, SDK`, of('sdk', 'listMs'), 'ms');
  add(`${TOOLS} tools / SDK`, ratio('listMs'), '', { ceiling: 0.6 });
  add(`calls, ${IN_FLIGHT} in flight`, of('ours', 'callsPerSecond'), '/s');
  add('calls, SDK', of('sdk', 'callsPerSecond'), '/s');
  add('calls / SDK', ratio('callsPerSecond'), '', transport === 'stdio' ? { floor: 1.5 } : {});
  const all = BURSTS * 10;
  add(`progress messages of ${all}`, of('ours', 'progress'), '', { floor: all });
  add(`progress messages of ${all}, SDK`, of('sdk', 'progress'), '');
  add(`memory for ${LONG} tools`, await growth(transport), 'MB', { ceiling: 60 });
}
report(rows);
