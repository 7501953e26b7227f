import { aiSdk, type AiSdkResult } from '../../../src/adapters/ai-sdk/ai-sdk-agent.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import { checkKey } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// The AI SDK with a wrapped model and wrapped tools.

interface Ai {
  readonly streamText: (options: JsonObject) => AiSdkResult;
  readonly tool: (definition: JsonObject) => unknown;
  readonly jsonSchema: (schema: JsonObject) => unknown;
  readonly stepCountIs: (count: number) => unknown;
}
interface Provider {
  readonly createOpenAICompatible: (options: JsonObject) => (model: string) => object;
}
interface Executing {
  readonly abortSignal?: AbortSignal;
  readonly toolCallId: string;
}

const sdk = await peer('ai-sdk');

const agent: MatrixAgent = {
  ...(sdk.reason !== undefined && { missing: sdk.reason }),
  build: async ({ url, tools }) => {
    const ai = (await sdk.import('ai')) as unknown as Ai;
    const provider = (await sdk.import('@ai-sdk/openai-compatible')) as unknown as Provider;
    const baseURL = `${url}/v1`;
    const model = provider.createOpenAICompatible({ name: 'scripted', baseURL })('scripted');
    const made = tools.map(({ name, description, schema, approval = false, run }) => [
      name,
      ai.tool({
        description,
        inputSchema: ai.jsonSchema(schema),
        needsApproval: approval,
        execute: (args: JsonObject, { abortSignal, toolCallId }: Executing) => {
          checkKey(args, toolCallId);
          return run(args, abortSignal);
        },
      }),
    ]);
    const own = { stopWhen: ai.stepCountIs(8), onError: () => {} };
    return aiSdk((call) => ai.streamText({ ...own, ...call }), {
      model,
      tools: Object.fromEntries(made) as JsonObject,
    });
  },
};

export default agent;
