import { expect, test } from 'vitest';
import { StreamingAdapter } from './streaming-adapter.ts';
import { createRegistry } from '../registry/registry.ts';
import { tool } from '../registry/tool.ts';

test('a source without pages is split into pages by its checkpoints', async () => {
  const registry = createRegistry({ name: 'r' });
  for (let n = 0; n < 250; n += 1) registry.register(tool(`t${n}`, '', {}, () => ''));
  const adapter = new StreamingAdapter(registry);
  expect(await adapter.listTools()).toMatchObject({ tools: { length: 250 } });
  expect(await adapter.listTools()).not.toHaveProperty('nextCursor');
  const list = adapter.streamListTools();
  for await (const { name } of list) if (name === 't49') break;
  const names: string[] = [];
  const sizes: number[] = [];
  let cursor: string | undefined = list.checkpoint;
  while (cursor !== undefined) {
    const page = await adapter.listTools({ cursor });
    names.push(...page.tools.map((one) => one.name));
    sizes.push(page.tools.length);
    cursor = page.nextCursor;
  }
  expect(sizes).toEqual([100, 100]);
  expect(names).toEqual(Array.from({ length: 200 }, (_, n) => `t${n + 50}`));
});

test('a source without checkpoints refuses cursors', async () => {
  const adapter = new StreamingAdapter({
    info: { name: 's', version: '1' },
    async *listTools() {
      for (;;) yield { name: 't', inputSchema: {} };
    },
    async *callTool() {},
  });
  await expect(adapter.listTools({ cursor: 'x' })).rejects.toMatchObject({ code: 'unsupported' });
});
