import { fileURLToPath } from 'node:url';
import { acp } from '../../src/adapters/acp/acp-agent.ts';
import type { AcpOptions } from '../../src/adapters/acp/acp-options.ts';
import type { Agent } from '../../src/event/types.ts';
import type { JsonObject } from '../../src/json.ts';
import { offerHttp } from '../../src/mcp/json-rpc/http/server/offer-http.ts';
import { createRegistry } from '../../src/mcp/registry/registry.ts';
import { tool } from '../../src/mcp/registry/tool.ts';
import type { ToolContext, ToolResult } from '../../src/mcp/types.ts';
import type { SceneTool } from '../adapters/contract/harness.ts';

/** Serves the tools of a scene over HTTP on loopback, for an agent in another process. */
export async function serveScene(
  tools: readonly SceneTool[],
): Promise<AsyncDisposable & { readonly url: string }> {
  const registry = createRegistry({
    name: 'scene',
    tools: tools.map(({ name, description, schema, run }) =>
      tool(name, description, schema, async (args: JsonObject, { signal }: ToolContext) => {
        const made = await run(args, signal);
        return typeof made === 'string' ? made : (made as ToolResult);
      }),
    ),
  });
  return offerHttp(registry);
}

export interface SdkAgentPlace {
  /** The URL of the SDK's module. */
  readonly sdk: string;
  /** The URL of the scripted model. */
  readonly model: string;
  /** The folder of the agent's sessions. */
  readonly sessions: string;
  /** The tools that need a permission. */
  readonly ask?: readonly string[];
}

/** The agent that is built with the official SDK, behind the adapter. */
export function sdkAgent(
  { sdk, model, sessions, ask = [] }: SdkAgentPlace,
  options: AcpOptions = {},
): Agent {
  return acp(fileURLToPath(new URL('../fixtures/acp-sdk-agent.mjs', import.meta.url)), {
    cwd: sessions,
    env: {
      ACP_SDK: sdk,
      DUOLANE: new URL('../../dist', import.meta.url).href,
      MODEL_URL: model,
      SESSIONS: sessions,
      ASK: ask.join(','),
    },
    inheritEnv: ['PATH'],
    ...options,
  });
}
