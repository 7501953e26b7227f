import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { expect } from 'vitest';
import type { JsonObject } from '../../src/json.ts';
import { StreamingAdapter } from '../../src/mcp/sources/streaming-adapter.ts';
import { dialMessages } from '../../src/mcp/json-rpc/client/dial-messages.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { serveMessages } from '../../src/mcp/json-rpc/server/serve-messages.ts';
import type { MessageTransport, Tool, ToolSource } from '../../src/mcp/types.ts';
import { Channel } from '../../src/stream/channel.ts';
import { ourCatalogue } from '../support/mcp/catalogue.ts';
import { httpV2 } from '../support/mcp/mcp-http.ts';
import { clientV2, missing } from '../support/mcp/mcp-sdk.ts';
import { toArray, toolSourceContract } from '../contracts/tool-source.contract.ts';
import { suite, verifies } from '../verifies.ts';

const PAGE = 3;

/** Ten pages of tools, where the last is created only after a client has seen the first. */
function gated(): { source: ToolSource; seen: () => void; produced: () => number } {
  let [seen, produced] = [(): void => {}, 0];
  const wasSeen = new Promise<void>((resolve) => (seen = resolve));
  const source: ToolSource = {
    info: { name: 'gated', version: '1' },
    async *listTools() {
      for (let n = 1; n <= 10 * PAGE; n += 1) {
        if (n === 10 * PAGE) await wasSeen;
        produced = n;
        yield { name: `t${n}`, inputSchema: { type: 'object' } } satisfies Tool;
      }
    },
    async *callTool() {},
  };
  return { source, seen: () => seen(), produced: () => produced };
}

verifies(
  ['S237', 'S238'],
  'the first tool arrives before the server has created the last, also through a bridge',
  async () => {
    const { source, seen, produced } = gated();
    await using far = await offerHttp(source, { pageSize: PAGE });
    await using middle = await dialHttp({ url: far.url });
    await using near = await offerHttp(middle, { pageSize: PAGE });
    await using dialled = await dialHttp({ url: near.url });
    const names: string[] = [];
    for await (const { name } of new StreamingAdapter(dialled).streamListTools()) {
      // The page in hand, one item to know that there is another, and the same at the bridge.
      if (names.length === 0) expect(produced()).toBeLessThanOrEqual(2 * PAGE + 1);
      names.push(name);
      seen();
    }
    expect(names).toHaveLength(10 * PAGE);
  },
);

suite('mcp-sdk', missing, () => {
  verifies(
    'S236',
    'an official client waits for the complete list; ours has the first tool after a page',
    async () => {
      const { source, seen, produced } = gated();
      await using offered = await offerHttp(source, { pageSize: PAGE });
      const client = clientV2();
      await client.connect(httpV2(offered.url));
      const all = client.listTools();
      let first: unknown;
      void all.then(({ tools }) => (first = tools[0]));
      await expect.poll(produced).toBe(10 * PAGE - 1);
      expect(first).toBeUndefined();
      seen();
      expect((await all).tools).toHaveLength(10 * PAGE);
      await client.close();

      const again = gated();
      await using other = await offerHttp(again.source, { pageSize: PAGE });
      await using dialled = await dialHttp({ url: other.url });
      for await (const tool of dialled.listTools()) {
        expect(tool.name).toBe('t1');
        break;
      }
      expect(again.produced()).toBe(PAGE + 1);
    },
  );
});

verifies('S249', 'only the parts that use pages, or hide them, know cursors', () => {
  const src = fileURLToPath(new URL('../../src/', import.meta.url));
  const knows = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .filter((file) => readFileSync(join(src, file), 'utf8').includes('nextCursor'))
    .filter((file) => !file.startsWith('mcp/json-rpc/'));
  // The host reads what its own JSON-RPC end gave to the CLI.
  expect(knows.toSorted()).toEqual([
    'host/callbacks/mcp-bridge.ts',
    'mcp/sources/cursor-pages.ts',
    'mcp/sources/streaming-adapter.ts',
  ]);
});

/** A transport that this package does not know: the ports of worker threads. */
function portRoad(port: MessagePort): MessageTransport & { close(): Promise<void> } {
  const incoming = new Channel<JsonObject>({ capacity: 1_024 });
  port.on('message', (message: JsonObject) => incoming.offer(message));
  port.once('close', () => incoming.close());
  return {
    incoming,
    async send(message) {
      port.postMessage(message);
    },
    async close() {
      port.close();
    },
  };
}

const overPorts = async (source: ToolSource): Promise<{ source: ToolSource } & AsyncDisposable> => {
  const { port1, port2 } = new MessageChannel();
  const serving = serveMessages(source, portRoad(port1));
  const dialled = await dialMessages(portRoad(port2));
  return {
    source: dialled,
    async [Symbol.asyncDispose]() {
      await dialled[Symbol.asyncDispose]();
      await serving.done;
    },
  };
};

verifies(
  'S248',
  'a new transport plugs in: both forms of a list, without other changes',
  async () => {
    await using opened = await overPorts(ourCatalogue().source);
    const adapter = new StreamingAdapter(opened.source);
    const streamed = await toArray(adapter.streamListTools());
    expect(streamed.length).toBeGreaterThan(20);
    expect(await adapter.listTools()).toEqual({ tools: streamed });
  },
);

toolSourceContract('our offer over the ports of worker threads', async () => {
  const { source, ...rest } = ourCatalogue();
  return { ...rest, ...(await overPorts(source)) };
});
