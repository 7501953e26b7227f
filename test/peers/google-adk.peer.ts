import { afterAll, expect, test } from 'vitest';
import { googleAdk, type AdkRunner } from '../../src/adapters/google-adk/google-adk-agent.ts';
import { checkLaws, normalizeAgent } from '../../src/event/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { serve } from '../../src/serve/index.ts';
import { memoryLog } from '../../src/task/index.ts';
import { all } from '../a2a/support.ts';
import { adapterContract, only, type Scene } from '../adapters/adapter.contract.ts';
import { killEverywhere } from '../adapters/kill-everywhere.ts';
import { contextFor } from '../contracts/agent.contract.ts';
import { turnOf } from '../support/arbitraries.ts';
import { peer } from '../peers.ts';
import { startModelServer } from '../support/model-server.ts';
import { suite } from '../verifies.ts';

const sdk = await peer('google-adk');
afterAll(() => void delete process.env['GOOGLE_GEMINI_BASE_URL']);

/** The part of ADK that the tests use. */
interface Lib {
  readonly LlmAgent: new (options: JsonObject) => unknown;
  readonly InMemoryRunner: new (options: JsonObject) => AdkRunner;
  readonly ParallelAgent: new (options: JsonObject) => unknown;
  readonly AgentTool: new (options: JsonObject) => unknown;
  readonly FunctionTool: new (options: JsonObject) => unknown;
  readonly Gemini: new (options: JsonObject) => unknown;
  readonly setLogLevel: (level: number) => void;
  readonly LogLevel: { readonly ERROR: number };
}

/** ADK expects the types of a schema in upper case. */
const schemaOf = ({ type, properties, required }: JsonObject): JsonObject => ({
  type: String(type).toUpperCase(),
  ...(typeof properties === 'object' && {
    properties: Object.fromEntries(
      Object.entries(properties as JsonObject).map(([name, value]) => [
        name,
        schemaOf(value as JsonObject),
      ]),
    ),
  }),
  ...(Array.isArray(required) && { required: required as readonly string[] }),
});

async function load(url: string): Promise<Lib> {
  // The base URL of the client of Gemini can only be set here.
  process.env['GOOGLE_GEMINI_BASE_URL'] = url;
  const lib = (await sdk.import('@google/adk')) as unknown as Lib;
  lib.setLogLevel(lib.LogLevel.ERROR);
  return lib;
}

function agentOf(lib: Lib, { tools, output }: Scene, options: JsonObject): unknown {
  return new lib.LlmAgent({
    name: 'scene',
    model: new lib.Gemini({ model: 'gemini-scripted', apiKey: 'dummy' }),
    instruction: 'Answer.',
    tools: tools.map(
      ({ name, description, schema, approval = false, run }) =>
        new lib.FunctionTool({
          name,
          description,
          parameters: schemaOf(schema),
          requireConfirmation: approval,
          execute: (args: JsonObject, context?: { readonly abortSignal?: AbortSignal }) =>
            run(args, context?.abortSignal),
        }),
    ),
    ...(output && { outputSchema: schemaOf(output) }),
    ...options,
  });
}

const run = (lib: Lib, agent: unknown, durable = true): Agent =>
  googleAdk(new lib.InMemoryRunner({ agent, appName: 'scene' }), { durable });

const build =
  (durable: boolean) =>
  async (scene: Scene): Promise<Agent> => {
    const lib = await load(scene.url);
    return run(lib, agentOf(lib, scene, {}), durable);
  };

/** An agent that has another as a tool. */
async function asking(scene: Scene): Promise<Agent> {
  const lib = await load(scene.url);
  const helper = agentOf(lib, scene, { name: 'helper', description: 'Helps' });
  const tools = [new lib.AgentTool({ agent: helper })];
  return run(lib, agentOf(lib, { ...scene, tools: [] }, { tools }));
}

suite('google-adk', sdk.reason, () => {
  for (const durable of [true, false])
    adapterContract(`Google ADK${durable ? '' : ' with its own sessions'}`, {
      build: build(durable),
      gaps: { arguments: 'it gives a call whole' },
      subAgent: {
        build: asking,
        handOver: {
          tools: [{ id: 'call_helper', name: 'helper', input: { request: 'Find it.' } }],
        },
        unheard: 'AgentTool keeps the events of the agent to itself',
      },
    });
  killEverywhere('Google ADK', { build: build(true) });

  test('an agent that takes over continues the text under its own name', async () => {
    const transfer = { id: 'call_1', name: 'transfer_to_agent', input: { agentName: 'helper' } };
    await using model = await startModelServer([
      { text: 'I ask. ', tools: [transfer] },
      { text: 'Found it. ' },
      { text: 'Done.' },
    ]);
    const scene = { url: model.url, tools: [] };
    const lib = await load(model.url);
    const helper = agentOf(lib, scene, { name: 'helper', description: 'Helps' });
    const agent = run(lib, agentOf(lib, scene, { subAgents: [helper] }));
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(checkLaws(events)).toEqual([]);
    expect(only(events, 'tool.completed')).toMatchObject([{ name: 'transfer_to_agent' }]);
    expect(only(events, 'status').map(({ message }) => message)).toContain('Agent: helper');
    expect(only(events, 'step.started').map(({ name }) => name)).toContain('helper');
    expect(events.at(-1)).toMatchObject({
      outcome: 'completed',
      text: expect.stringMatching(/^I ask. Found it. /) as string,
    });
  });

  test('a file that a tool saves is an artifact', async () => {
    await using model = await startModelServer([
      { tools: [{ id: 'call_1', name: 'draw', input: {} }] },
      { text: 'Drawn.' },
    ]);
    const lib = await load(model.url);
    const draw = new lib.FunctionTool({
      name: 'draw',
      description: 'Draws',
      execute: async (_args: unknown, context: { saveArtifact: (...of: unknown[]) => unknown }) => {
        const data = Buffer.from('PNG').toString('base64');
        await context.saveArtifact('leaf.png', { inlineData: { data, mimeType: 'image/png' } });
        return 'done';
      },
    });
    const scene = { url: model.url, tools: [] };
    const agent = run(lib, agentOf(lib, scene, { tools: [draw] }));
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(checkLaws(events)).toEqual([]);
    const parts = [
      { bytes: Buffer.from('PNG'), mediaType: 'image/png', filename: 'leaf.png' },
    ] as const;
    expect(only(events, 'artifact')).toMatchObject([{ name: 'leaf.png', parts, last: true }]);
  });

  test('each parallel agent has its branch as its path', async () => {
    await using model = await startModelServer(({ body }) => ({
      text: JSON.stringify(body).includes('First.') ? ['one ', 'half'] : ['two ', 'halves'],
    }));
    const scene = { url: model.url, tools: [] };
    const lib = await load(model.url);
    const subAgents = ['First', 'Second'].map((name) =>
      agentOf(lib, scene, { name, instruction: `${name}.` }),
    );
    const agent = run(lib, new lib.ParallelAgent({ name: 'both', subAgents }));
    const events = await all(normalizeAgent(agent)(turnOf('m1'), contextFor().ctx));
    expect(checkLaws(events)).toEqual([]);
    const said = (name: string): string =>
      only(events, 'text.delta')
        .filter(({ path }) => path?.at(-1) === name)
        .map(({ delta }) => delta)
        .join('');
    expect([said('First'), said('Second')]).toEqual(['one half', 'two halves']);
  });

  test('an agent of ours that ADK calls over A2A sends its text once', async () => {
    await using served = await serve(
      async function* () {
        yield { type: 'text.delta', id: 't', delta: 'You said: ' };
        yield { type: 'text.delta', id: 't', delta: 'hello' };
      },
      { log: memoryLog(), page: false },
    );
    const { RemoteA2AAgent, InMemoryRunner } = (await sdk.import('@google/adk')) as unknown as {
      readonly RemoteA2AAgent: new (options: JsonObject) => unknown;
      readonly InMemoryRunner: new (options: JsonObject) => {
        readonly sessionService: {
          createSession(of: JsonObject): Promise<{ readonly id: string }>;
        };
        runAsync(options: JsonObject): AsyncIterable<{
          readonly partial?: boolean;
          readonly content?: { readonly parts?: readonly { readonly text?: string }[] };
        }>;
      };
    };
    const agent = new RemoteA2AAgent({ name: 'remote', agentCard: served.url });
    const runner = new InMemoryRunner({ agent, appName: 'app' });
    const { id } = await runner.sessionService.createSession({ appName: 'app', userId: 'u' });
    const newMessage = { role: 'user', parts: [{ text: 'hello' }] };
    const whole: string[] = [];
    for await (const event of runner.runAsync({ userId: 'u', sessionId: id, newMessage }))
      if (event.partial !== true && event.content)
        whole.push((event.content.parts ?? []).map(({ text = '' }) => text).join(''));
    expect(whole).toEqual(['You said: hello']);
  });
});
