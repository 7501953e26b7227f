import type { JsonObject as ProtoJson, MessageInitShape } from '@bufbuild/protobuf';
import { asObject, asObjects, isObject, type JsonObject } from '../../../json.ts';
import { toBytes } from '../codec/content-codec.ts';
import type {
  CallToolResponse_ContentSchema,
  PromptMessageSchema,
  PromptSchema,
  ResourceContentsSchema,
  ResourceSchema,
  ResourceTemplateSchema,
  ToolSchema,
} from '../gen/model_context_protocol/mcp_pb.ts';
import { Role } from '../gen/model_context_protocol/mcp_pb.ts';

/** The members of an object that have a type, with the keys of the message. */
const members = <K extends string, T>(
  from: JsonObject,
  keys: readonly K[],
  type: 'string' | 'boolean',
): Partial<Record<K, T>> =>
  Object.fromEntries(
    keys.flatMap((key) => (typeof from[key] === type ? [[key, from[key]]] : [])),
  ) as Partial<Record<K, T>>;

const texts = <K extends string>(from: JsonObject, keys: readonly K[]) =>
  members<K, string>(from, keys, 'string');

const flags = <K extends string>(from: JsonObject, keys: readonly K[]) =>
  members<K, boolean>(from, keys, 'boolean');

const struct = <K extends string>(key: K, value: unknown): Partial<Record<K, ProtoJson>> =>
  isObject(value) ? ({ [key]: value } as Record<K, ProtoJson>) : {};

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;

export const toGoogleTool = (tool: JsonObject): MessageInitShape<typeof ToolSchema> => ({
  ...texts(tool, ['name', 'title', 'description']),
  ...struct('inputSchema', tool['inputSchema']),
  ...struct('outputSchema', tool['outputSchema']),
  ...(isObject(tool['annotations']) && {
    annotations: { ...texts(tool['annotations'], ['title']), ...flags(tool['annotations'], HINTS) },
  }),
});

export const toGoogleResource = (item: JsonObject): MessageInitShape<typeof ResourceSchema> => ({
  ...texts(item, ['uri', 'name', 'title', 'description', 'mimeType']),
  ...(Number.isSafeInteger(item['size']) &&
    Number(item['size']) >= 0 && { size: BigInt(Number(item['size'])) }),
});

export const toGoogleTemplate = (
  item: JsonObject,
): MessageInitShape<typeof ResourceTemplateSchema> =>
  texts(item, ['uriTemplate', 'name', 'title', 'description', 'mimeType']);

export const toGooglePrompt = (item: JsonObject): MessageInitShape<typeof PromptSchema> => ({
  ...texts(item, ['name', 'title', 'description']),
  arguments: asObjects(item['arguments']).map((one) => ({
    ...texts(one, ['name', 'title', 'description']),
    ...flags(one, ['required']),
  })),
});

export function toGoogleContents(
  entry: JsonObject,
): MessageInitShape<typeof ResourceContentsSchema> {
  const blob = toBytes(entry['blob']);
  return { ...texts(entry, ['uri', 'mimeType', 'text']), ...(blob && { blob }) };
}

type Block = Omit<
  MessageInitShape<typeof CallToolResponse_ContentSchema>,
  '$typeName' | '$unknown'
>;

/** Encodes a content block. A kind without a message becomes the text of its JSON. */
export function toGoogleContent(block: JsonObject): Block {
  const { type, resource } = block;
  const data = toBytes(block['data']);
  const binary = data && { data, ...texts(block, ['mimeType']) };
  if (type === 'text' && typeof block['text'] === 'string')
    return { text: { text: block['text'] } };
  if (type === 'image' && binary) return { image: binary };
  if (type === 'audio' && binary) return { audio: binary };
  if (type === 'resource' && isObject(resource))
    return { embeddedResource: { contents: toGoogleContents(resource) } };
  if (type === 'resource_link') return { resourceLink: toGoogleResource(block) };
  return { text: { text: JSON.stringify(block) } };
}

export function toGoogleMessage(message: unknown): MessageInitShape<typeof PromptMessageSchema> {
  const { role, content } = asObject(message);
  return {
    role: role === 'assistant' ? Role.ASSISTANT : Role.USER,
    ...(isObject(content) && toGoogleContent(content)),
  };
}
