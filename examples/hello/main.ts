import { createSdkMcpServer, query, tool } from 'duolane';
import { z } from 'zod';

const moon = createSdkMcpServer({
  name: 'moon',
  tools: [
    tool('landing', 'When a mission landed', { mission: z.string() }, async ({ mission }) =>
      mission === 'Apollo 11' ? '20 July 1969' : 'never',
    ),
  ],
});
const options = {
  model: `script:${import.meta.dirname}/answers.json`, // or anthropic:<model>, openai:<model>@<url>
  mcpServers: { moon },
  allowedTools: ['mcp__moon__*'],
};
for await (const message of query({ prompt: 'When did Apollo 11 land?', options })) {
  if ('result' in message) console.log(message.result);
}
