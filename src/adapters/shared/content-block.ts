import type { Part } from '../../event/types.ts';
import type { JsonObject } from '../../json.ts';

/** A part of a turn as a content block of the Messages API. */
export function contentBlock(part: Part): JsonObject {
  if ('text' in part) return { type: 'text', text: part.text };
  if ('data' in part) return { type: 'text', text: JSON.stringify(part.data) };
  if ('url' in part) return { type: 'text', text: part.url };
  const data = Buffer.from(part.bytes).toString('base64');
  const source = { type: 'base64', media_type: part.mediaType, data };
  return { type: part.mediaType.startsWith('image/') ? 'image' : 'document', source };
}
