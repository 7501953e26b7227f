import { isObject, type JsonObject } from '../../json.ts';
import type { ToolEvent } from '../types.ts';

/**
 * Parts of a result before it is whole. No revision has a form for them yet, so they go only to a
 * client that says it knows ours, near to what is proposed (SEP-2998): a notification by progress
 * token. The result at the end is always whole, so who misses some has lost nothing.
 */
const EXTENSION = 'duolane/partial';
export const PARTIAL_METHOD = 'notifications/tools/partial_result';

/** What we can do, and that we take partial results: all who read our calls do. */
export function withPartial(capabilities: JsonObject, key: CapabilityKey): JsonObject {
  const known = isObject(capabilities[key]) ? capabilities[key] : {};
  return { ...capabilities, [key]: { ...known, [EXTENSION]: {} } };
}

/** Revisions with sessions call an extension an experiment. */
type CapabilityKey = 'extensions' | 'experimental';

export const wantsPartial = ({ extensions, experimental }: JsonObject): boolean =>
  [extensions, experimental].some((each) => isObject(each) && isObject(each[EXTENSION]));

export function toPartial({ index, content, final }: JsonObject): ToolEvent | undefined {
  if (typeof index !== 'number') return undefined;
  return { type: 'partial', index, content, ...(typeof final === 'boolean' && { final }) };
}
