import { tool } from '@langchain/core/tools';
import { MemorySaver } from '@langchain/langgraph';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { langgraph } from 'duolane/adapters/langgraph';
import { type Agent, withRetry } from 'duolane/event';
import { description, schema, weather } from '../weather.ts';

const graph = createReactAgent({
  // For known model names of OpenAI, LangChain would load token tables from the network.
  llm: new ChatOpenAI({ model: process.env['OPENAI_MODEL'] ?? 'gpt-5', maxRetries: 0 }),
  tools: [tool(weather, { name: 'weather', description, schema })],
  checkpointer: new MemorySaver(),
});

const served: Agent = withRetry(langgraph(graph));
export default served;
