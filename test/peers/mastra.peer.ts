import { expect, test } from 'vitest';
import { mastra, type MastraAgent } from '../../src/adapters/mastra/mastra-agent.ts';
import { normalizeAgent } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { all } from '../a2a/support.ts';
import { adapterContract, only, type Scene } from '../adapters/adapter.contract.ts';
import { killEverywhere } from '../adapters/kill-everywhere.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

process.env['MASTRA_TELEMETRY_DISABLED'] = '1';
const sdk = await peer('mastra');
const load = async <T>(name: string): Promise<T> => (await sdk.import(name)) as T;

interface AgentOptions extends JsonObject {
  readonly id: string;
}

/** An agent of Mastra on the scripted model, with the tools of the scenario. */
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
    z: {
      object: (shape: JsonObject) => unknown;
      number: () => unknown;
      string: () => { optional: () => unknown };
    };
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
      inputSchema: z.object({ a: z.number(), id: z.string().optional() }),
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
  // The storage keeps suspended runs; without a logger Mastra does not print every failure.
  const agents = { [options.id]: agent };
  void new Mastra({ agents, logger: false, storage: new InMemoryStore() });
  return agent;
}

const build =
  (durable: boolean) =>
  async (scene: Scene): Promise<Agent> => {
    const { output } = scene;
    return mastra(await open(scene, { id: 'scene' }), {
      options: () => (output ? { structuredOutput: { schema: output } } : { maxSteps: 8 }),
      durable,
    });
  };

/** An agent that has another among its `agents`. */
const asking =
  (durable: boolean) =>
  async (scene: Scene): Promise<Agent> => {
    const helper = await open(scene, { id: 'helper', description: 'Helps' });
    const agent = await open({ ...scene, tools: [] }, { id: 'scene', agents: { helper } });
    return mastra(agent, { durable });
  };

suite('mastra', sdk.reason, () => {
  const handOver = {
    tools: [{ id: 'call_helper', name: 'agent-helper', input: { prompt: 'Find it.' } }],
  };
  for (const durable of [true, false])
    adapterContract(`Mastra${durable ? '' : ' with its own storage'}`, {
      build: build(durable),
      subAgent: { build: asking(durable), handOver },
    });
  killEverywhere('Mastra', { build: build(true) });

  test('a file of the model is an artifact', async () => {
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    const draws = {
      specificationVersion: 'v2',
      provider: 'scripted',
      modelId: 'scripted',
      supportedUrls: {},
      doStream: async () => ({
        stream: ReadableStream.from([
          { type: 'stream-start', warnings: [] },
          { type: 'file', mediaType: 'image/png', data: Buffer.from('PNG').toString('base64') },
          { type: 'finish', finishReason: 'stop', usage },
        ]),
      }),
    };
    const scene = { url: 'http://127.0.0.1', tools: [] };
    const agent = mastra(await open(scene, { id: 'scene', model: draws }));
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(events.at(-1)).toMatchObject({ outcome: 'completed' });
    const parts = [{ bytes: Buffer.from('PNG'), mediaType: 'image/png' }];
    expect(only(events, 'artifact')).toMatchObject([{ parts, last: true }]);
  });
});
