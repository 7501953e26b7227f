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
// An offline stand-in for a model. A real one is 'anthropic:<model>' or 'openai:<model>@<url>'.
const script = [
  { tools: [{ name: 'mcp__moon__landing', input: { mission: 'Apollo 11' } }] },
  { text: 'Apollo 11 landed on {{last}}.' },
];
const options = {
  model: `script:${JSON.stringify(script)}`,
  mcpServers: { moon },
  allowedTools: ['mcp__moon__*'],
};
for await (const message of query({ prompt: 'When did Apollo 11 land?', options })) {
  if ('result' in message) console.log(message.result);
}
