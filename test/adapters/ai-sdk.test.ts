import { expect, test } from 'vitest';
import {
  aiSdk,
  type AiSdkAgent,
  type AiSdkCall,
  type AiSdkResult,
} from '../../src/adapters/ai-sdk/ai-sdk-agent.ts';
import { advance, normalizeAgent } from '../../src/event/index.ts';
import type { Agent, AgentEvent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { all } from '../a2a/support.ts';
import { contextFor, foldRun } from '../contracts/agent.contract.ts';
import { numbered, turnOf } from '../support/arbitraries.ts';
import { peer } from '../peers.ts';
import { startModelServer, type ModelRequest } from '../support/model-server.ts';
import { suite, verifies } from '../verifies.ts';
import { adapterContract, only, type Scene } from './adapter.contract.ts';
import { killEverywhere } from './kill-everywhere.ts';

const sdk = await peer('ai-sdk');

/** What we use of `ai`, in all three versions. */
interface Ai {
  readonly streamText: (options: JsonObject) => AiSdkResult & {
    readonly toUIMessageStream: () => unknown;
  };
  readonly readUIMessageStream: (options: JsonObject) => AsyncIterable<unknown>;
  readonly tool: (definition: JsonObject) => unknown;
  readonly jsonSchema: (schema: JsonObject) => unknown;
  readonly stepCountIs: (count: number) => unknown;
  readonly ToolLoopAgent: new (options: JsonObject) => AiSdkAgent;
  readonly Output: { readonly object: (options: JsonObject) => unknown };
}
interface Executing {
  readonly abortSignal?: AbortSignal;
}
interface Provider {
  readonly createOpenAICompatible: (options: JsonObject) => (model: string) => object;
}

const VERSIONS = [
  [7, 'ai', '@ai-sdk/openai-compatible', {}],
  [6, 'ai-6', 'openai-compatible-2', {}],
  [5, 'ai-5', 'openai-compatible-1', { approval: 'came with 6', structured: 'came with 6' }],
] as const;

suite('ai-sdk', sdk.reason, () => {
  for (const [version, name, provider, gaps] of VERSIONS) {
    const options = async ({ url, tools, output }: Scene) => {
      const ai = (await sdk.import(name)) as unknown as Ai;
      const { createOpenAICompatible } = (await sdk.import(provider)) as unknown as Provider;
      const model = createOpenAICompatible({
        name: 'scripted',
        baseURL: `${url}/v1`,
        includeUsage: true,
        supportsStructuredOutputs: true,
      })('scripted');
      const made = tools.map((each) => [
        each.name,
        ai.tool({
          description: each.description,
          inputSchema: ai.jsonSchema(each.schema),
          needsApproval: each.approval ?? false,
          execute: (args: JsonObject, { abortSignal }: Executing) => each.run(args, abortSignal),
        }),
      ]);
      return {
        model,
        tools: Object.fromEntries(made) as JsonObject,
        stopWhen: ai.stepCountIs(8),
        ...(output && { output: ai.Output.object({ schema: ai.jsonSchema(output) }) }),
        // The SDK prints every error otherwise.
        onError: () => {},
      };
    };
    const build = async (scene: Scene): Promise<Agent> => {
      const ai = (await sdk.import(name)) as unknown as Ai;
      const own = await options(scene);
      return aiSdk((call) => ai.streamText({ ...own, ...call }));
    };
    const durable = async (scene: Scene): Promise<Agent> => {
      const ai = (await sdk.import(name)) as unknown as Ai;
      const { model, tools, ...own } = await options(scene);
      return aiSdk((call) => ai.streamText({ ...own, ...call }), { model, tools });
    };
    const toolLoop = async (scene: Scene): Promise<Agent> => {
      const { ToolLoopAgent } = (await sdk.import(name)) as unknown as Ai;
      return aiSdk(new ToolLoopAgent({ ...(await options(scene)), maxRetries: 0 }));
    };
    /** A tool that runs another agent and yields its message as it grows, as the SDK's guide has it. */
    const helperOf = async (scene: Scene) => {
      const ai = (await sdk.import(name)) as unknown as Ai;
      const helping = await options(scene);
      const helper = ai.tool({
        inputSchema: ai.jsonSchema({ type: 'object', properties: { prompt: { type: 'string' } } }),
        async *execute({ prompt }: JsonObject, { abortSignal }: Executing) {
          const asked = ai.streamText({ ...helping, prompt, abortSignal, maxRetries: 0 });
          yield* ai.readUIMessageStream({ stream: asked.toUIMessageStream() });
        },
      });
      return { ai, own: await options({ ...scene, tools: [] }), tools: { helper } };
    };
    const subAgent = async (scene: Scene): Promise<Agent> => {
      const { ai, own, tools } = await helperOf(scene);
      return aiSdk((call) => ai.streamText({ ...own, tools, ...call }));
    };
    const durableSubAgent = async (scene: Scene): Promise<Agent> => {
      const { ai, own, tools } = await helperOf(scene);
      const { model } = own;
      return aiSdk((call) => ai.streamText({ ...own, ...call }), { model, tools });
    };
    adapterContract(`the AI SDK ${version}`, {
      build,
      gaps,
      subAgent: { build: subAgent, uncounted: 'a UI message has no usage' },
    });
    adapterContract(`the AI SDK ${version} with durable calls`, {
      build: durable,
      gaps,
      subAgent: { build: durableSubAgent, uncounted: 'a UI message has no usage' },
    });
    killEverywhere(`the AI SDK ${version}`, { build: durable, approval: version > 5 });
    if (version > 5) killEverywhere(`a ToolLoopAgent of ${version}`, { build: toolLoop });
  }

  type Start = (call: AiSdkCall, more?: JsonObject) => AiSdkResult;
  const open = async (url: string, options: JsonObject = {}): Promise<Start> => {
    const ai = (await sdk.import('ai')) as unknown as Ai;
    const { createOpenAICompatible } = (await sdk.import(
      '@ai-sdk/openai-compatible',
    )) as unknown as Provider;
    const model = createOpenAICompatible({ name: 's', baseURL: `${url}/v1` })('scripted');
    return (call, more) => ai.streamText({ model, ...options, ...more, ...call });
  };
  const run = (agent: Agent, ctx = contextFor().ctx): Promise<AgentEvent[]> =>
    all(normalizeAgent(agent)(turnOf('m1'), ctx));

  verifies('S142', 'a run gets the message, what it depends on, and its tools', async () => {
    await using server = await startModelServer([{ text: 'fine' }]);
    const { tool, jsonSchema } = (await sdk.import('ai')) as unknown as Ai;
    const inputSchema = jsonSchema({ type: 'object', properties: {} });
    const tools = { lookup: tool({ description: 'Looks up', inputSchema }) };
    const start = await open(server.url, { tools });
    const dependencies = new Map([['c', 'You talk to Ada.']]);
    const agent = aiSdk((call, { turn }) =>
      start(call, { instructions: dependencies.get(turn.context) }),
    );
    await run(agent);
    const [{ body }] = server.calls as [ModelRequest];
    expect(body).toMatchObject({
      messages: [
        { role: 'system', content: 'You talk to Ada.' },
        { role: 'user', content: 'hi' },
      ],
      tools: [{ function: { name: 'lookup' } }],
    });
  });

  verifies('S153', 'runs do not wait for each other, however slow the model is', async () => {
    let arrived = 0;
    let release = (): void => {};
    const together = new Promise<void>((resolve) => (release = resolve));
    // No question is answered before all were asked: a run that blocked the others would hang.
    await using server = await startModelServer(async () => {
      if (++arrived === 5) release();
      await together;
      return { text: 'fine' };
    });
    const start = await open(server.url);
    const agent = aiSdk((call) => start(call));
    const runs = await Promise.all(Array.from({ length: 5 }, () => run(agent)));
    for (const events of runs)
      expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'fine' });
  });

  test('a ToolLoopAgent works without a wrapper', async () => {
    await using server = await startModelServer([{ tools: [{ name: 'add' }] }, { text: 'Done.' }]);
    const { tool, jsonSchema, ToolLoopAgent } = (await sdk.import('ai')) as unknown as Ai;
    const { createOpenAICompatible } = (await sdk.import(
      '@ai-sdk/openai-compatible',
    )) as unknown as Provider;
    const model = createOpenAICompatible({ name: 's', baseURL: `${server.url}/v1` })('scripted');
    const inputSchema = jsonSchema({ type: 'object', properties: {} });
    const tools = { add: tool({ inputSchema, execute: async () => 'sum' }) };
    const events = await run(aiSdk(new ToolLoopAgent({ model, tools })));
    expect(only(events, 'tool.completed')).toMatchObject([{ name: 'add', output: 'sum' }]);
    expect(events.at(-1)).toMatchObject({ outcome: 'completed', text: 'Done.' });
  });

  test('the model gets the earlier messages of the context', async () => {
    await using server = await startModelServer([{ text: 'Ada.' }]);
    const before = foldRun(
      advance(
        undefined,
        numbered({ type: 'turn.submitted', turn: turnOf('m0', { task: 't0' }) }, 1),
      ),
      [
        { type: 'run.started', turn: 'm0' },
        { type: 'text.delta', id: 'x', delta: 'Hello Ada.' },
        { type: 'text.end', id: 'x', text: 'Hello Ada.' },
        { type: 'run.finished', outcome: 'completed', text: 'Hello Ada.' },
      ],
    );
    const { ctx } = contextFor();
    const history = async function* () {
      yield before;
    };
    const start = await open(server.url);
    await run(
      aiSdk((call) => start(call)),
      { ...ctx, history },
    );
    expect(server.calls[0]?.body['messages']).toMatchObject([
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: 'Hello Ada.' },
      { role: 'user', content: 'hi' },
    ]);
  });

  test('an MCP result with isError is a failed call, and a yielding tool reports progress', async () => {
    const { tool, jsonSchema, stepCountIs } = (await sdk.import('ai')) as unknown as Ai;
    await using server = await startModelServer([
      { tools: [{ name: 'mcp' }, { name: 'slow' }] },
      { text: 'Done.' },
    ]);
    const inputSchema = jsonSchema({ type: 'object', properties: {} });
    const content = [{ type: 'text', text: 'no such file' }];
    const tools = {
      mcp: tool({ inputSchema, execute: async () => ({ isError: true, content }) }),
      slow: tool({
        inputSchema,
        async *execute() {
          yield 'half';
          yield 'whole';
        },
      }),
    };
    const start = await open(server.url, { tools, stopWhen: stepCountIs(3) });
    const events = await run(aiSdk((call) => start(call)));
    expect(only(events, 'tool.failed')).toMatchObject([
      { name: 'mcp', error: { code: 'tool', message: 'no such file' } },
    ]);
    expect(only(events, 'tool.progress')[0]).toMatchObject({ data: 'half' });
    expect(only(events, 'tool.completed')).toMatchObject([{ name: 'slow', output: 'whole' }]);
  });

  test('a file that the model makes is an artifact', async () => {
    const { streamText } = (await sdk.import('ai')) as unknown as Ai;
    const { MockLanguageModelV3 } = (await sdk.import('ai/test')) as unknown as {
      MockLanguageModelV3: new (options: JsonObject) => unknown;
    };
    const tokens = { total: 1 };
    const model = new MockLanguageModelV3({
      doStream: async () => ({
        stream: ReadableStream.from([
          { type: 'stream-start', warnings: [] },
          { type: 'file', mediaType: 'image/png', data: Buffer.from('PNG').toString('base64') },
          {
            type: 'finish',
            finishReason: { unified: 'stop', raw: 'stop' },
            usage: { inputTokens: tokens, outputTokens: tokens },
          },
        ]),
      }),
    });
    const events = await run(aiSdk((call) => streamText({ model, ...call })));
    expect(events.at(-1)).toMatchObject({ outcome: 'completed' });
    const parts = [{ bytes: new Uint8Array(Buffer.from('PNG')), mediaType: 'image/png' }];
    expect(only(events, 'artifact')).toMatchObject([{ parts, last: true }]);
  });
});
