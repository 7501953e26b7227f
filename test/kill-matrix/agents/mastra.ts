import { mastra, type MastraAgent } from '../../../src/adapters/mastra/mastra-agent.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// An agent of Mastra with durable steps.

process.env['MASTRA_TELEMETRY_DISABLED'] = '1';

interface Zod {
  readonly object: (shape: JsonObject) => unknown;
  readonly number: () => unknown;
  readonly string: () => unknown;
}

const sdk = await peer('mastra');
const load = async <T>(name: string): Promise<T> => (await sdk.import(name)) as T;

const agent: MatrixAgent = {
  ...(sdk.reason !== undefined && { missing: sdk.reason }),
  build: async ({ url, tools }) => {
    const { Agent: MastraAgentClass } = await load<{
      Agent: new (options: JsonObject) => MastraAgent;
    }>('@mastra/core/agent');
    const { createTool } = await load<{ createTool: (options: JsonObject) => unknown }>(
      '@mastra/core/tools',
    );
    const { Mastra } = await load<{ Mastra: new (options: JsonObject) => unknown }>('@mastra/core');
    const { InMemoryStore } = await load<{ InMemoryStore: new () => unknown }>(
      '@mastra/core/storage',
    );
    const { createOpenAICompatible } = await load<{
      createOpenAICompatible: (options: JsonObject) => (model: string) => unknown;
    }>('@ai-sdk/openai-compatible');
    const { z } = await load<{ z: Zod }>('zod');
    const made = tools.map(({ name, description, approval = false, run }) => [
      name,
      createTool({
        id: name,
        description,
        inputSchema: z.object({ a: z.number(), id: z.string() }),
        requireApproval: approval,
        execute: (args: JsonObject, context?: { readonly abortSignal?: AbortSignal }) =>
          run(args, context?.abortSignal),
      }),
    ]);
    const scene = new MastraAgentClass({
      id: 'scene',
      name: 'scene',
      instructions: 'Answer.',
      model: createOpenAICompatible({ name: 'scripted', baseURL: `${url}/v1` })('scripted'),
      tools: Object.fromEntries(made) as JsonObject,
    });
    void new Mastra({ agents: { scene }, logger: false, storage: new InMemoryStore() });
    return mastra(scene, { options: () => ({ maxSteps: 8 }) });
  },
};

export default agent;
