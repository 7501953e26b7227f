import { createSdkMcpServer, tool } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import type { ToolContext } from '../../src/mcp/types.ts';
import type { Scene } from '../adapters/contract/harness.ts';

/** The name of a tool of the scene in an agent CLI. */
export const cliToolName = (name: string): string => `mcp__scene__${name}`;

/** The call id is the idempotency key of a tool: it must be the one that the model has given. */
export function checkKey(args: JsonObject, id: string | undefined): void {
  if (id !== args['id']) throw new Error(`the call ${String(args['id'])} has the id ${id}`);
}

/** The tools of the scene as an in-process server of an agent CLI, and those that need no person. */
export const cliTools = ({
  tools,
}: Scene): {
  readonly mcpServers: { readonly scene: ReturnType<typeof createSdkMcpServer> };
  readonly allowedTools: string[];
} => ({
  mcpServers: {
    scene: createSdkMcpServer({
      name: 'scene',
      tools: tools.map(({ name, description, schema, run }) =>
        tool(name, description, schema, async (args: JsonObject, { signal, id }: ToolContext) => {
          checkKey(args, id);
          return String(await run(args, signal));
        }),
      ),
    }),
  },
  allowedTools: tools.filter(({ approval }) => !approval).map(({ name }) => cliToolName(name)),
});
