import { describe, expect, test } from 'vitest';
import { ChangeFeed } from '../../src/mcp/sources/change-feed.ts';
import { gateway } from '../../src/mcp/sources/gateway.ts';
import { dialHttp } from '../../src/mcp/json-rpc/http/client/dial-http.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import type { SourceChange, ToolSource } from '../../src/mcp/types.ts';

/** Resources that change when a test says so, and who listens for which. */
function watched(): { source: ToolSource; changes: ChangeFeed; wanted: string[][] } {
  const changes = new ChangeFeed();
  const wanted: string[][] = [];
  const source: ToolSource = {
    info: { name: 'watched', version: '1' },
    async *listTools() {},
    async *callTool() {},
    async *listResources() {
      yield { uri: 'a://1', name: 'one' };
    },
    async *readResource(uri) {
      yield { uri, text: 'x' };
    },
    listen(options = {}) {
      wanted.push([...(options.resources ?? [])]);
      return changes.listen(options);
    },
  };
  return { source, changes, wanted };
}

/** Collects each change from the start of listening to the first change of the lists. */
async function hear(
  source: ToolSource,
  resources: readonly string[],
  ready: () => void,
): Promise<SourceChange[]> {
  const heard: SourceChange[] = [];
  for await (const change of source.listen!({ resources })) {
    if (change.type === 'listening') ready();
    else heard.push(change);
    if (change.type === 'resources') break;
  }
  return heard;
}

describe('the changes of a single resource', () => {
  const protocols = ['session', 'stateless'] as const;
  for (const far of protocols)
    for (const near of protocols)
      test(`reach only the listeners that asked for it: ${far} server, ${near} client`, async () => {
        const { source, changes, wanted } = watched();
        await using behind = await offerHttp(source);
        await using middle = await dialHttp({ url: behind.url, protocol: far });
        await using front = await offerHttp(middle);
        await using dialled = await dialHttp({ url: front.url, protocol: near });
        const listeners = [['a://1'], ['a://2'], []];
        const runs: Promise<SourceChange[]>[] = [];
        for (const uris of listeners)
          await new Promise<void>((ready) => runs.push(hear(dialled, uris, ready)));
        changes.notify({ type: 'resource', uri: 'a://1' });
        changes.notify({ type: 'resource', uri: 'a://3' });
        await expect.poll(() => wanted.flat()).toContain('a://1');
        changes.notify({ type: 'resources' });
        const [mine, ...others] = await Promise.all(runs);
        expect(mine).toContainEqual({ type: 'resource', uri: 'a://1' });
        expect(others.flat().map(({ uri }) => uri)).not.toContain('a://1');
      });

  test('arrive through a gateway from the source that has it', async () => {
    const [one, two] = [watched(), watched()];
    await using both = gateway({ one: one.source, two: two.source });
    const heard = hear(both, ['a://1'], () => {
      two.changes.notify({ type: 'resource', uri: 'a://1' });
      two.changes.notify({ type: 'resources' });
    });
    expect(await heard).toContainEqual({ type: 'resource', uri: 'a://1' });
  });
});
