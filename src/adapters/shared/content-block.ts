import type { Part } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';
import { partText } from './framework-agent.ts';

/** A part of a turn as a content block of the Messages API. */
export function contentBlock(part: Part): JsonObject {
  if (!('bytes' in part)) return { type: 'text', text: partText(part) };
  const data = Buffer.from(part.bytes).toString('base64');
  const source = { type: 'base64', media_type: part.mediaType, data };
  return { type: part.mediaType.startsWith('image/') ? 'image' : 'document', source };
}
