import { FunctionTool, InMemoryRunner, LlmAgent } from '@google/adk';
import { googleAdk } from 'duolane/adapters/google-adk';
import { type Agent, withRetry } from 'duolane/event';
import { description, schema, weather } from '../weather.ts';

const agent = new LlmAgent({
  name: 'weather',
  model: 'gemini-2.5-flash',
  instruction: 'Answer in one sentence.',
  tools: [new FunctionTool({ name: 'weather', description, parameters: schema, execute: weather })],
});

const served: Agent = withRetry(googleAdk(new InMemoryRunner({ agent, appName: 'weather' })));
export default served;
