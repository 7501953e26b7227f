import { createRegistry, dialHttp, offerHttp, tool } from 'duolane/mcp';
import { z } from 'zod';

const registry = createRegistry({
  name: 'moon',
  tools: [
    tool('landing', 'When a mission landed', { mission: z.string() }, async ({ mission }) =>
      mission === 'Apollo 11' ? '20 July 1969' : 'never',
    ),
  ],
});

await using offered = await offerHttp(registry, { port: 0 }); // listens on 127.0.0.1
console.log(`MCP server at ${offered.url}`);

await using source = await dialHttp({ url: offered.url });
for await (const { name } of source.listTools()) console.log(name);
const call = { id: 'call-1', name: 'landing', args: { mission: 'Apollo 11' } };
for await (const event of source.callTool(call)) console.log(JSON.stringify(event));
