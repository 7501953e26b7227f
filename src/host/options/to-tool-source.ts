import { DuolaneError } from '../../errors.ts';
import type { SdkServer } from '../../mcp/json-rpc/in-process.ts';
import type { ToolSource } from '../../mcp/types.ts';

/** Whether a value has the members of a ToolSource. */
export const isSource = (value: object): value is ToolSource =>
  'listTools' in value && 'callTool' in value && 'info' in value;

const isServer = (value: object): value is SdkServer =>
  'connect' in value && typeof value.connect === 'function';

/**
 * The value of `instance` as a ToolSource: itself, or a client of a server object of the MCP SDK,
 * which all sessions share. The client is loaded on demand, because most programs never use one.
 */
export async function toToolSource(instance: object): Promise<ToolSource> {
  if (isSource(instance)) return instance;
  if (!isServer(instance))
    throw new DuolaneError(
      'invalid',
      'instance must be a ToolSource or a server object of the MCP SDK (with connect())',
    );
  const { asToolSource } = await import('../../mcp/json-rpc/in-process.ts');
  return asToolSource(instance);
}
