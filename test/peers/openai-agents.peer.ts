import { openaiAgents, type OpenAiStream } from '../../src/adapters/openai-agents/index.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { adapterContract, type Scene } from '../adapters/adapter.contract.ts';
import { peer } from '../peers.ts';
import { suite } from '../verifies.ts';

const sdk = await peer('openai-agents');

/** What the tests use of the SDK. */
interface Lib {
  readonly Agent: new (options: JsonObject) => unknown;
  readonly OpenAIChatCompletionsModel: new (client: unknown, model: string) => unknown;
  readonly tool: (options: JsonObject) => unknown;
  readonly run: (agent: unknown, input: unknown, options: unknown) => Promise<OpenAiStream>;
  readonly setTracingDisabled: (disabled: boolean) => void;
}

async function build({ url, tools, output }: Scene): Promise<Agent> {
  const lib = (await sdk.import('@openai/agents')) as unknown as Lib;
  const { default: OpenAI } = (await sdk.import('openai')) as {
    default: new (options: JsonObject) => unknown;
  };
  lib.setTracingDisabled(true);
  const client = new OpenAI({ apiKey: 'dummy', baseURL: `${url}/v1`, maxRetries: 0 });
  const agent = new lib.Agent({
    name: 'scene',
    model: new lib.OpenAIChatCompletionsModel(client, 'scripted'),
    tools: tools.map(({ name, description, schema, approval = false, run }) =>
      lib.tool({
        name,
        description,
        parameters: { ...schema, additionalProperties: false },
        strict: true,
        needsApproval: approval,
        execute: (args: JsonObject, _run: unknown, details?: { signal?: AbortSignal }) =>
          run(args, details?.signal),
      }),
    ),
    ...(output && {
      outputType: { type: 'json_schema', name: 'answer', strict: true, schema: output },
    }),
  });
  return openaiAgents((input, options) => lib.run(agent, input, options));
}

suite('openai-agents', sdk.reason, () => {
  adapterContract('the OpenAI Agents SDK', {
    build,
    startsOver: true,
    toolError: 'An error occurred while running the tool',
  });
});
