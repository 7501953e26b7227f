import { unsupported } from '../../errors.ts';
import type { Part } from '../../event/types.ts';
import { asObject, asString, type JsonObject } from '../../json.ts';

/** Which blocks besides text and links an agent accepts. */
export interface PromptSupport {
  readonly image: boolean;
  readonly audio: boolean;
  readonly embeddedContext: boolean;
}

/** A part of a turn as a block of a prompt. Throws `unsupported` for what the agent refuses. */
export function promptBlock(part: Part, can: PromptSupport): JsonObject {
  if ('text' in part) return { type: 'text', text: part.text };
  if ('data' in part) return { type: 'text', text: JSON.stringify(part.data) };
  const { mediaType, filename } = part;
  if ('url' in part) {
    const name = filename ?? part.url;
    return {
      type: 'resource_link',
      uri: part.url,
      name,
      ...(mediaType && { mimeType: mediaType }),
    };
  }
  const data = Buffer.from(part.bytes).toString('base64');
  const kind = mediaTypeKind(part.mediaType);
  if (!can[kind])
    throw unsupported(
      `the agent does not accept ${kind === 'embeddedContext' ? 'files' : kind} in a prompt (${part.mediaType}); send a URL or text instead`,
    );
  if (kind !== 'embeddedContext') return { type: kind, data, mimeType: part.mediaType };
  const uri = `attachment:///${encodeURIComponent(filename ?? 'file')}`;
  return { type: 'resource', resource: { uri, mimeType: part.mediaType, blob: data } };
}

function mediaTypeKind(mediaType: string): keyof PromptSupport {
  if (mediaType.startsWith('image/')) return 'image';
  return mediaType.startsWith('audio/') ? 'audio' : 'embeddedContext';
}

/** A block of the agent that is not text, as a part of an artifact; undefined if it has nothing. */
export function blockPart(block: JsonObject): Part | undefined {
  switch (block['type']) {
    case 'image':
    case 'audio':
      return {
        bytes: Buffer.from(asString(block['data']), 'base64'),
        mediaType: asString(block['mimeType'], 'application/octet-stream'),
      };
    case 'resource_link':
      return {
        url: asString(block['uri']),
        filename: asString(block['name']),
        ...(typeof block['mimeType'] === 'string' && { mediaType: block['mimeType'] }),
      };
    case 'resource': {
      const { text, blob, mimeType, uri } = asObject(block['resource']);
      const filename = asString(uri);
      if (typeof text === 'string')
        return { text, ...(mimeType ? { mediaType: asString(mimeType) } : {}) };
      const mediaType = asString(mimeType, 'application/octet-stream');
      return { bytes: Buffer.from(asString(blob), 'base64'), mediaType, filename };
    }
    default:
      return undefined;
  }
}
