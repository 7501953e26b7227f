import { malformed } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/**
 * Throws `malformed` if a tool of a server cannot be called: it has no name or no schema object.
 */
export function checkTool({ name, inputSchema }: JsonObject): void {
  if (typeof name !== 'string' || !isObject(inputSchema))
    throw malformed(
      `the server sent a tool ${JSON.stringify(name)} that cannot be called: expected a name and an object as inputSchema`,
    );
}
