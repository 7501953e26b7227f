import { createSdkMcpServer, tool } from 'duolane/mcp';
import { z } from 'zod';

const stock = new Map([
  ['bolt', 120],
  ['nut', 0],
]);

const warehouse = createSdkMcpServer({
  name: 'warehouse',
  tools: [
    tool(
      'count',
      'How many of a part are in stock',
      { part: z.string().describe('name of the part, in the singular') },
      async ({ part }) => {
        const count = stock.get(part);
        if (count === undefined)
          throw new Error(`no part "${part}"; there are ${[...stock.keys()].join(', ')}`);
        return {
          content: [{ type: 'text', text: `${count}` }],
          structuredContent: { part, count },
        };
      },
      { annotations: { readOnlyHint: true } }, // so agents may call it in parallel
    ),
    tool(
      'recount',
      'Count every part again, by hand',
      {},
      async function* (_, { signal }) {
        const parts = [...stock.keys()];
        for (const [done, part] of parts.entries()) {
          signal.throwIfAborted(); // interrupted, cancelled, past the deadline, or without a consumer
          yield { type: 'progress', progress: done + 1, total: parts.length, message: part };
        }
        return `${parts.length} kinds of part`;
      },
      { deadlineMs: 60_000, concurrency: 1 },
    ),
  ],
});

for await (const { name } of warehouse.instance.listTools()) console.log(name);
for (const [name, args] of [
  ['count', { part: 'bolt' }],
  ['count', { part: 'screw' }],
  ['recount', {}],
] as const)
  for await (const event of warehouse.instance.callTool({ id: name, name, args }))
    console.log(JSON.stringify(event));
