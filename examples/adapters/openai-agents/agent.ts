import * as openai from '@openai/agents';
import { openaiAgents } from 'duolane/adapters/openai-agents';
import { type Agent, withRetry } from 'duolane/event';
import OpenAI from 'openai';
import { description, schema, weather } from '../weather.ts';

openai.setTracingDisabled(true); // tracing would send every run to the provider
const agent = new openai.Agent({
  name: 'weather',
  model: new openai.OpenAIChatCompletionsModel(new OpenAI({ maxRetries: 0 }), 'gpt-5'),
  tools: [openai.tool({ name: 'weather', description, parameters: schema, execute: weather })],
});

const served: Agent = withRetry(
  openaiAgents((input, options, run) => openai.run(run.agent, input, options), { agent }),
);
export default served;
