import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** Throws `malformed` for what a server calls a tool and nobody could call. */
export function checkTool({ name, inputSchema }: JsonObject): void {
  if (typeof name !== 'string' || !isObject(inputSchema))
    throw new DuolaneError(
      'malformed',
      `the server sent a tool ${JSON.stringify(name)} whose schema is no object`,
    );
}
