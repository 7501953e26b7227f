import { createSdkMcpServer, openSession, tool } from 'duolane';
import { z } from 'zod';

const landing = tool(
  'landing',
  'When a mission landed',
  { mission: z.string() },
  async ({ mission }) => (mission === 'Apollo 11' ? '20 July 1969' : 'never'),
);

await using session = await openSession({
  model: `script:${import.meta.dirname}/answers.json`, // or anthropic:<model>, openai:<model>@<url>
  mcpServers: { moon: createSdkMcpServer({ name: 'moon', tools: [landing] }) },
  allowedTools: ['mcp__moon__*'],
});
await session.send('When did Apollo 11 land?');
for await (const message of session.response()) {
  if (message['type'] === 'result') console.log(message['result']);
}
console.log(session.calls.map(({ name }) => name)); // the tools that the model called
