import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { stepCountIs, streamText, tool } from 'ai';
import { aiSdk } from 'duolane/adapters/ai-sdk';
import { type Agent, withRetry } from 'duolane/event';
import { description, schema, weather } from '../weather.ts';

const provider = createOpenAICompatible({
  name: 'provider',
  baseURL: process.env['OPENAI_BASE_URL'],
  apiKey: process.env['OPENAI_API_KEY'],
});
const tools = { weather: tool({ description, inputSchema: schema, execute: weather }) };

const served: Agent = withRetry(
  aiSdk((call) => streamText({ stopWhen: stepCountIs(5), ...call }), {
    model: provider('gpt-5'),
    tools,
  }),
);
export default served;
