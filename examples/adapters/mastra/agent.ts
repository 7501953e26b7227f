import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { Agent as MastraAgent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { mastra } from 'duolane/adapters/mastra';
import { type Agent, withRetry } from 'duolane/event';
import { description, schema, weather } from '../weather.ts';

const provider = createOpenAICompatible({
  name: 'provider',
  baseURL: process.env['OPENAI_BASE_URL'],
  apiKey: process.env['OPENAI_API_KEY'],
});
const tools = {
  weather: createTool({ id: 'weather', description, inputSchema: schema, execute: weather }),
};
const instructions = 'Answer in one sentence.';
const agent = new MastraAgent({
  id: 'a',
  name: 'a',
  instructions,
  model: provider('gpt-5'),
  tools,
});

const served: Agent = withRetry(mastra(agent));
export default served;
