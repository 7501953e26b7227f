import Anthropic from '@anthropic-ai/sdk';
import { tool } from 'duolane';
import { anthropic } from 'duolane/adapters/anthropic';
import { type Agent, withRetry } from 'duolane/event';
import { createRegistry } from 'duolane/mcp';
import { description, schema, weather } from '../weather.ts';

const tools = createRegistry({
  name: 'sky',
  tools: [tool('weather', description, schema.shape, weather)],
});

const served: Agent = withRetry(
  anthropic(new Anthropic(), { model: 'claude-sonnet-4-6', maxTokens: 1024, tools }),
);
export default served;
