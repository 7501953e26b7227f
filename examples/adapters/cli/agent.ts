import { createSdkMcpServer, tool } from 'duolane';
import { cli } from 'duolane/adapters';
import type { Agent } from 'duolane/event';
import { description, schema, weather } from '../weather.ts';

const sky = createSdkMcpServer({
  name: 'sky',
  tools: [tool('weather', description, schema.shape, weather)],
});

// Our own agent CLI; the official one with `pathToClaudeCodeExecutable`.
const served: Agent = cli({
  model: `openai:gpt-5@${process.env['OPENAI_BASE_URL']}`,
  mcpServers: { sky },
  allowedTools: ['mcp__sky__*'],
});
export default served;
