import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { dialTransport } from '../../src/mcp/json-rpc/stdio.ts';
import type { ToolEvent } from '../../src/mcp/types.ts';
import { childTransport } from '../support/child-transport.ts';
import { clientV1, clientV2, missing, stdioV1, stdioV2 } from '../support/mcp/mcp-sdk.ts';
import { BLOCKS, TOOL_COUNT } from '../support/mcp/catalogue.ts';
import { call, toArray } from '../contracts/tool-source.contract.ts';
import { testIf } from '../verifies.ts';

const server = fileURLToPath(new URL('../fixtures/mcp-stdio-server.ts', import.meta.url));
const ARGS = ['--import', 'tsx', server];

describe('a server in a child process', () => {
  test('lists, calls with every burst of progress, and exits when its stdin ends', async () => {
    const noise: string[] = [];
    const transport = childTransport(ARGS);
    await using source = await dialTransport(transport, { onNoise: (text) => noise.push(text) });
    expect(await toArray(source.listTools())).toHaveLength(TOOL_COUNT);
    const runs = await Promise.all(
      Array.from({ length: 200 }, () => toArray(source.callTool(call('burst', { count: 10 })))),
    );
    const progress = runs.flat().filter((event: ToolEvent) => event.type === 'progress');
    expect(progress).toHaveLength(2_000);
    expect(noise).toEqual(['starting up']);
    await source[Symbol.asyncDispose]();
    expect(await transport.exited).toMatchObject({ code: 0 });
  });

  test('that is killed ends the call in flight with its signal', async () => {
    const transport = childTransport(ARGS);
    await using source = await dialTransport(transport);
    for await (const event of source.callTool(call('burst', { count: 1 }))) {
      expect(event).toBeDefined();
      break;
    }
    const run = toArray(source.callTool(call('slow')));
    run.catch(() => {});
    transport.kill();
    await expect(run).rejects.toMatchObject({
      code: 'peer_exited',
      message: 'the tool server exited with signal SIGKILL',
    });
  });

  test('that fails to start is reported with the end of its stderr', async () => {
    const transport = childTransport(['-e', 'console.error("no config"); process.exit(3)']);
    await expect(dialTransport(transport)).rejects.toMatchObject({
      code: 'peer_exited',
      message: 'the tool server exited with code 3; end of its stderr: no config',
    });
  });

  for (const [name, make, road] of [
    ['v1', clientV1, stdioV1],
    ['v2', clientV2, stdioV2],
  ] as const)
    testIf(missing, `serves the official ${name} client over stdio`, async () => {
      const client = make();
      await client.connect(road({ command: process.execPath, args: ARGS }));
      const first = await client.listTools();
      const names = new Set(first.tools.map((tool) => tool['name']));
      for (let { nextCursor: cursor } = first; cursor !== undefined;) {
        const page = await client.listTools({ cursor });
        for (const tool of page.tools) names.add(tool['name']);
        cursor = page.nextCursor;
      }
      expect(names.size).toBe(TOOL_COUNT);
      expect(await client.callTool({ name: 'blocks', arguments: {} })).toMatchObject({
        content: BLOCKS,
      });
      await client.close();
    });
});
