import { DuolaneError } from '../../errors.ts';
import type { SdkServer } from '../../mcp/json-rpc/in-process.ts';
import type { ToolSource } from '../../mcp/types.ts';

export const isSource = (value: object): value is ToolSource =>
  'listTools' in value && 'callTool' in value && 'info' in value;

const isServer = (value: object): value is SdkServer =>
  'connect' in value && typeof value.connect === 'function';

/**
 * What was given as `instance`, as a ToolSource: itself, or what dials a server object of the MCP
 * SDK, which all sessions share. Loaded where it is needed: most programs never meet one.
 */
export async function toToolSource(instance: object): Promise<ToolSource> {
  if (isSource(instance)) return instance;
  if (!isServer(instance))
    throw new DuolaneError(
      'invalid',
      'instance must be a ToolSource or a server object of the MCP SDK, which has connect()',
    );
  const { asToolSource } = await import('../../mcp/json-rpc/in-process.ts');
  return asToolSource(instance);
}
