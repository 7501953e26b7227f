import { asObject, isObject, type JsonObject } from '../../json.ts';
import type { ToolEvent } from '../types.ts';

/**
 * The extension for parts of a result before it is complete. No revision of the protocol has a form
 * for them, so only a client that announces this extension gets them, in a form near the proposed
 * one (SEP-2998): a notification by progress token. The result at the end is always complete, so a
 * client that misses parts loses nothing.
 */
const EXTENSION = 'duolane/partial';
export const PARTIAL_METHOD = 'notifications/tools/partial_result';

/** Adds to capabilities that we accept partial results, as every reader of our calls does. */
export function withPartial(capabilities: JsonObject, key: CapabilityKey): JsonObject {
  const known = asObject(capabilities[key]);
  return { ...capabilities, [key]: { ...known, [EXTENSION]: {} } };
}

/** The session protocol calls an extension `experimental`. */
type CapabilityKey = 'extensions' | 'experimental';

/** Whether a client with these capabilities accepts partial results. */
export const wantsPartial = ({ extensions, experimental }: JsonObject): boolean =>
  [extensions, experimental].some((each) => isObject(each) && isObject(each[EXTENSION]));

/** Decodes the parameters of a notification; `undefined` if they are invalid. */
export function toPartial({ index, content, final }: JsonObject): ToolEvent | undefined {
  if (typeof index !== 'number') return undefined;
  return { type: 'partial', index, content, ...(typeof final === 'boolean' && { final }) };
}
