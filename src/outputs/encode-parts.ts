import type { Part } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';

/** The output of a tool as text: the text of MCP content, else JSON. */
export function toolOutputText(output: unknown): string {
  if (typeof output === 'string') return output;
  if (Array.isArray(output) && output.length > 0 && output.every(isText))
    return output.map(({ text }) => text).join('\n');
  return JSON.stringify(output) ?? '';
}

const isText = (block: unknown): block is { readonly text: string } =>
  isObject(block) && block['type'] === 'text' && typeof block['text'] === 'string';

/** A part as JSON: bytes become base64. */
export function partToJson(part: Part): JsonObject {
  if (!('bytes' in part)) return part;
  return { ...part, bytes: Buffer.from(part.bytes).toString('base64') };
}

/** Bytes as a `data:` URL. */
export const dataUrl = (bytes: Uint8Array, mediaType: string): string =>
  `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}`;
