import type { Part } from '../event/types.ts';
import { isObject, type JsonObject } from '../json.ts';

/** What a tool gave, as text: the words of MCP content where it is that, else JSON. */
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

/** Bytes as a URL that holds them. */
export const dataUrl = (bytes: Uint8Array, mediaType: string): string =>
  `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}`;

export const omitUndefined = <T extends object>(fields: T): T =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
