import { malformed } from '../../../errors.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import type { Tool } from '../../types.ts';
import { toBase64 } from '../codec/content-codec.ts';
import {
  type CallToolResponse_Content,
  type Prompt,
  type PromptMessage,
  type Resource,
  type ResourceContents,
  type ResourceTemplate,
  Role,
  type Tool as GoogleTool,
} from '../gen/model_context_protocol/mcp_pb.ts';

/** The members of a message with a text; an empty text is an absent one in that proto. */
const textsOf = <T extends object, K extends keyof T & string>(
  from: T,
  keys: readonly K[],
): JsonObject =>
  Object.fromEntries(keys.flatMap((key) => (from[key] ? [[key, from[key] as unknown]] : [])));

const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;

export const fromGoogleTool = (tool: GoogleTool): Tool =>
  omitUndefined<Tool>({
    name: tool.name,
    ...textsOf(tool, ['title', 'description']),
    inputSchema: { type: 'object', ...tool.inputSchema },
    outputSchema: tool.outputSchema as JsonObject | undefined,
    annotations: tool.annotations && {
      ...textsOf(tool.annotations, ['title']),
      ...Object.fromEntries(HINTS.map((hint) => [hint, tool.annotations![hint]])),
    },
  });

export const fromGoogleResource = (item: Resource): JsonObject =>
  omitUndefined<JsonObject>({
    ...textsOf(item, ['uri', 'name', 'title', 'description', 'mimeType']),
    size: item.size > 0n ? Number(item.size) : undefined,
  });

export const fromGoogleTemplate = (item: ResourceTemplate): JsonObject =>
  textsOf(item, ['uriTemplate', 'name', 'title', 'description', 'mimeType']);

export const fromGooglePrompt = (item: Prompt): JsonObject => ({
  ...textsOf(item, ['name', 'title', 'description']),
  arguments: item.arguments.map((one) => ({
    ...textsOf(one, ['name', 'title', 'description']),
    required: one.required,
  })),
});

export const fromGoogleContents = (entry: ResourceContents): JsonObject => ({
  ...textsOf(entry, ['uri', 'mimeType']),
  ...(entry.blob.length > 0 ? { blob: toBase64(entry.blob) } : { text: entry.text }),
});

/** Decodes a content block; throws `malformed` for one of a kind that the proto does not have. */
export function fromGoogleContent(
  block: Omit<CallToolResponse_Content, '$typeName' | '$unknown'>,
): JsonObject {
  const { text, image, audio, embeddedResource, resourceLink } = block;
  const binary = image ?? audio;
  if (binary)
    return {
      type: image ? 'image' : 'audio',
      data: toBase64(binary.data),
      mimeType: binary.mimeType,
    };
  if (embeddedResource?.contents)
    return { type: 'resource', resource: fromGoogleContents(embeddedResource.contents) };
  if (resourceLink) return { type: 'resource_link', ...fromGoogleResource(resourceLink) };
  if (text) return { type: 'text', text: text.text };
  throw malformed(
    'the server sent a content block of an unknown kind; update duolane, or ask the server for text',
  );
}

export const fromGoogleMessage = (message: PromptMessage): JsonObject => ({
  role: message.role === Role.ASSISTANT ? 'assistant' : 'user',
  content: fromGoogleContent(message),
});
