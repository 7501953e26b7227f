import { mastra, type MastraAgent } from '../../src/adapters/mastra/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { adapterContract, type Scene } from '../adapters/adapter.contract.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

process.env['MASTRA_TELEMETRY_DISABLED'] = '1';
const sdk = await peer('mastra');
const load = async <T>(name: string): Promise<T> => (await sdk.import(name)) as T;

async function build({ url, tools, output }: Scene): Promise<Agent> {
  const [{ Agent: MastraAgentClass }, { createTool }, { Mastra }, { InMemoryStore }, provider] =
    await Promise.all([
      load<{ Agent: new (options: JsonObject) => MastraAgent }>('@mastra/core/agent'),
      load<{ createTool: (options: JsonObject) => unknown }>('@mastra/core/tools'),
      load<{ Mastra: new (options: JsonObject) => unknown }>('@mastra/core'),
      load<{ InMemoryStore: new () => unknown }>('@mastra/core/storage'),
      load<{ createOpenAICompatible: (options: JsonObject) => (model: string) => unknown }>(
        '@ai-sdk/openai-compatible',
      ),
    ]);
  const { z } = await load<{
    z: { object: (shape: JsonObject) => unknown; number: () => unknown };
  }>('zod');
  const model = provider.createOpenAICompatible({
    name: 'scripted',
    baseURL: `${url}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })('scripted');
  const made = tools.map(({ name, description, approval = false, run }) => [
    name,
    createTool({
      id: name,
      description,
      inputSchema: z.object({ a: z.number() }),
      requireApproval: approval,
      execute: (args: JsonObject, context?: { readonly abortSignal?: AbortSignal }) =>
        run(args, context?.abortSignal),
    }),
  ]);
  const agent = new MastraAgentClass({
    id: 'scene',
    name: 'scene',
    instructions: 'Answer.',
    model,
    tools: Object.fromEntries(made) as JsonObject,
  });
  // It keeps suspended runs; without a logger it does not print every failure.
  void new Mastra({ agents: { scene: agent }, logger: false, storage: new InMemoryStore() });
  return mastra(agent, {
    options: () => (output ? { structuredOutput: { schema: output } } : {}),
  });
}

suite('mastra', sdk.reason, () => {
  adapterContract('Mastra', { build });
});
