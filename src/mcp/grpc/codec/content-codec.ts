import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { isObject, type JsonObject, omitUndefined } from '../../../json.ts';
import type { ToolResult } from '../../types.ts';
import {
  type CallToolResult,
  CallToolResultSchema,
  type Content,
  type ContentSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { isWellFormed, parse, parseObject, jsonText } from './json-text.ts';

/** Decodes base64; `undefined` for text that would not be the same after encoding it again. */
export function toBytes(base64: unknown): Uint8Array | undefined {
  if (typeof base64 !== 'string') return undefined;
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}

export const toBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');

const extraOf = (rest: JsonObject): { extraJson?: string } =>
  Object.keys(rest).length > 0 ? { extraJson: JSON.stringify(rest) } : {};

/** Encodes a block of a kind that the protocol has, or any other as JSON. */
function toContent(block: JsonObject): MessageInitShape<typeof ContentSchema> {
  const { type, ...members } = block;
  if (type === 'text' && typeof members['text'] === 'string' && isWellFormed(members['text'])) {
    const { text, ...rest } = members;
    return { text: text as string, ...extraOf(rest) };
  }
  if (type === 'image' || type === 'audio') {
    const { data, mimeType, ...rest } = members;
    const bytes = toBytes(data);
    if (bytes && typeof mimeType === 'string' && isWellFormed(mimeType))
      return { [type]: { data: bytes, mimeType }, ...extraOf(rest) };
  }
  return { rawJson: JSON.stringify(block) };
}

function fromContent({ text, image, audio, rawJson, extraJson }: Content): JsonObject {
  if (rawJson !== undefined) return parseObject(rawJson, 'Content.raw_json');
  const rest = parseObject(extraJson, 'Content.extra_json');
  if (text !== undefined) return { type: 'text', text, ...rest };
  const binary = image ?? audio;
  if (!binary) return { type: 'unknown', ...rest };
  const { data, mimeType } = binary;
  return { type: image ? 'image' : 'audio', data: toBase64(data), mimeType, ...rest };
}

export function toCallResult(result: ToolResult): CallToolResult {
  const { content, structuredContent, isError, _meta, ...rest } = result;
  const blocks = Array.isArray(content) && content.every(isObject) ? content : undefined;
  const extra: JsonObject = {
    ...rest,
    ...(!blocks && { content }),
    ...(isError !== undefined && typeof isError !== 'boolean' && { isError }),
  };
  return create(CallToolResultSchema, {
    content: (blocks ?? []).map(toContent),
    ...omitUndefined({
      structuredContentJson: jsonText(structuredContent),
      isError: typeof isError === 'boolean' ? isError : undefined,
      metaJson: jsonText(_meta),
    }),
    ...extraOf(extra),
  });
}

export function fromCallResult(result: CallToolResult): ToolResult {
  const { content, structuredContentJson: structured, isError, metaJson, extraJson } = result;
  return {
    content: content.map(fromContent),
    ...omitUndefined({
      structuredContent: parse(structured, 'CallToolResult.structured_content_json'),
      isError,
      _meta: parse(metaJson, 'CallToolResult.meta_json'),
    }),
    ...parseObject(extraJson, 'CallToolResult.extra_json'),
  };
}
