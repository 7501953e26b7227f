import { mastra, type MastraAgent } from '../../src/adapters/mastra/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { adapterContract, type Scene } from '../adapters/adapter.contract.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

process.env['MASTRA_TELEMETRY_DISABLED'] = '1';
const sdk = await peer('mastra');
const load = async <T>(name: string): Promise<T> => (await sdk.import(name)) as T;

interface AgentOptions extends JsonObject {
  readonly id: string;
}

/** An agent of Mastra on the scripted model, with the tools of the scene. */
async function open({ url, tools }: Scene, options: AgentOptions): Promise<MastraAgent> {
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
    name: options.id,
    instructions: 'Answer.',
    model,
    tools: Object.fromEntries(made) as JsonObject,
    ...options,
  });
  // It keeps suspended runs; without a logger it does not print every failure.
  const agents = { [options.id]: agent };
  void new Mastra({ agents, logger: false, storage: new InMemoryStore() });
  return agent;
}

const build = async (scene: Scene): Promise<Agent> => {
  const { output } = scene;
  return mastra(await open(scene, { id: 'scene' }), {
    options: () => (output ? { structuredOutput: { schema: output } } : {}),
  });
};

/** An agent that has another among its `agents`. */
async function asking(scene: Scene): Promise<Agent> {
  const helper = await open(scene, { id: 'helper', description: 'Helps' });
  return mastra(await open({ ...scene, tools: [] }, { id: 'scene', agents: { helper } }));
}

suite('mastra', sdk.reason, () => {
  const handOver = {
    tools: [{ id: 'call_helper', name: 'agent-helper', input: { prompt: 'Find it.' } }],
  };
  adapterContract('Mastra', { build, subAgent: { build: asking, handOver } });
});
