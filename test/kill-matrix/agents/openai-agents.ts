import {
  type OpenAiAgent,
  openaiAgents,
  type OpenAiStream,
} from '../../../src/adapters/openai-agents/openai-agent.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import { checkKey } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// The OpenAI Agents SDK with a wrapped agent.

interface Lib {
  readonly Agent: new (options: JsonObject) => OpenAiAgent;
  readonly OpenAIChatCompletionsModel: new (client: unknown, model: string) => unknown;
  readonly tool: (options: JsonObject) => unknown;
  readonly run: (agent: unknown, input: unknown, options: unknown) => Promise<OpenAiStream>;
  readonly setTracingDisabled: (disabled: boolean) => void;
}
interface Details {
  readonly signal?: AbortSignal;
  readonly toolCall?: { readonly callId?: string };
}

const sdk = await peer('openai-agents');

const agent: MatrixAgent = {
  ...(sdk.reason !== undefined && { missing: sdk.reason }),
  build: async ({ url, tools }) => {
    const lib = (await sdk.import('@openai/agents')) as unknown as Lib;
    const { default: OpenAI } = (await sdk.import('openai')) as {
      readonly default: new (options: JsonObject) => unknown;
    };
    lib.setTracingDisabled(true);
    const client = new OpenAI({ apiKey: 'dummy', baseURL: `${url}/v1`, maxRetries: 0 });
    const given = new lib.Agent({
      name: 'scene',
      model: new lib.OpenAIChatCompletionsModel(client, 'scripted'),
      tools: tools.map(({ name, description, schema, approval = false, run }) =>
        lib.tool({
          name,
          description,
          parameters: { ...schema, additionalProperties: false },
          strict: true,
          needsApproval: approval,
          execute: (args: JsonObject, _run: unknown, details?: Details) => {
            checkKey(args, details?.toolCall?.callId);
            return run(args, details?.signal);
          },
        }),
      ),
    });
    return openaiAgents((input, options, run) => lib.run(run.agent, input, options), {
      agent: given,
    });
  },
};

export default agent;
