import {
  anthropic,
  type AnthropicClient,
} from '../../../src/adapters/anthropic/anthropic-agent.ts';
import type { JsonObject } from '../../../src/json.ts';
import { peer } from '../../peers.ts';
import { cliTools } from '../cli-tools.ts';
import type { MatrixAgent } from '../matrix-agent.ts';

// The client of the Messages API, with the tools of the scene as an in-process MCP server.

const sdk = await peer('anthropic');

const agent: MatrixAgent = {
  ...(sdk.reason !== undefined && { missing: sdk.reason }),
  build: async (scene) => {
    const { default: Anthropic } = (await sdk.import('@anthropic-ai/sdk')) as {
      readonly default: new (options: JsonObject) => AnthropicClient;
    };
    return anthropic(new Anthropic({ apiKey: 'dummy', baseURL: scene.url }), {
      model: 'scripted',
      tools: cliTools(scene).mcpServers.scene.instance,
      needsApproval: ({ name }) => name === 'guarded',
    });
  },
};

export default agent;
