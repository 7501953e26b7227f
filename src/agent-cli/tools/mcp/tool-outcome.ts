import type { ToolResult } from '../../../mcp/types.ts';
import { safePrefix } from '../../../event/text/surrogates.ts';
import { type Block, contentText } from '../../models/types.ts';
import { asObject, asString, type JsonObject } from '../../../json.ts';
import type { ToolOutcome } from '../types.ts';

/** The limits of one result. The server writes it, and the user pays for what the model reads. */
const MAX_TEXT_CHARS = 100_000;
const MAX_IMAGE_CHARS = 10 * 1024 * 1024;
const MAX_BLOCKS = 1000;

/**
 * Converts the result of an MCP tool for the model: text and images stay, the rest becomes text.
 * What exceeds the limits is cut off, and the model gets the number of missing characters: a longer
 * result would exceed the context of the model, in this turn and in all later ones.
 */
export function toOutcome(server: string, result: ToolResult): ToolOutcome {
  const blocks = result.content
    .slice(0, MAX_BLOCKS + 1)
    .map((part) => toBlock(server, asObject(part)));
  if (result.isError) {
    const text = contentText(blocks) || 'The tool failed without an error message.';
    const [shown] = limited([{ type: 'text', text }]).map((block) => asString(block['text']));
    return { content: shown ?? '', isError: true, raw: `Error: ${shown}` };
  }
  const structured = result.structuredContent;
  // Most servers repeat their structured content as text. Add it only if the text is missing.
  const isRepeated = blocks.some(
    (block) => block.type === 'text' && sameJson(asString(block['text']), structured),
  );
  if (structured !== undefined && !isRepeated)
    blocks.push({ type: 'text', text: JSON.stringify(structured) });
  const content = limited(blocks);
  const raw = structured === undefined ? content : { content, structuredContent: structured };
  return { content, isError: false, raw };
}

/** Cuts off what exceeds the limits. */
function limited(blocks: readonly Block[]): Block[] {
  let [textRoom, imageRoom] = [MAX_TEXT_CHARS, MAX_IMAGE_CHARS];
  const kept = blocks.slice(0, MAX_BLOCKS).map((block): Block => {
    if (block.type === 'image') {
      const { length } = asString(asObject(block['source'])['data']);
      if (length > imageRoom)
        return { type: 'text', text: `(an image of ${length} characters was omitted)` };
      imageRoom -= length;
      return block;
    }
    const text = asString(block['text']);
    const shown = safePrefix(text, textRoom);
    textRoom -= shown.length;
    if (shown.length === text.length) return block;
    return { type: 'text', text: `${shown}\n(${text.length - shown.length} more characters)` };
  });
  if (blocks.length > MAX_BLOCKS)
    kept.push({ type: 'text', text: `(only the first ${MAX_BLOCKS} parts are shown)` });
  return kept;
}

/** The first characters, in base64, of the images that models accept. */
const IMAGES: readonly (readonly [start: string, type: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp'],
];

/**
 * The type of an image by its bytes: servers name another one at times, which APIs refuse.
 * Undefined: no image that models accept, or not base64.
 */
const imageType = (data: string): string | undefined =>
  /^[\w+/]+={0,2}$/.test(data) && !data.includes('_')
    ? IMAGES.find(([start]) => data.startsWith(start))?.[1]
    : undefined;

function toBlock(server: string, part: JsonObject): Block {
  switch (part['type']) {
    case 'text':
      return { type: 'text', text: asString(part['text']) };
    case 'image': {
      const data = asString(part['data']);
      const media_type = imageType(data);
      // The API of the model would refuse the complete history, in this turn and in all later ones.
      if (media_type === undefined) {
        const named = asString(part['mimeType'], 'unknown').slice(0, 100);
        const why = 'models accept PNG, JPEG, GIF and WebP';
        return { type: 'text', text: `(an image of type "${named}" was omitted: ${why})` };
      }
      return { type: 'image', source: { type: 'base64', media_type, data } };
    }
    case 'resource': {
      const resource = asObject(part['resource']);
      const text = asString(resource['text'], '(not text)');
      return {
        type: 'text',
        text: `[Resource from ${server} at ${asString(resource['uri'])}] ${text}`,
      };
    }
    case 'resource_link':
      return {
        type: 'text',
        text: `[Resource link: ${asString(part['name'])}] ${asString(part['uri'])}`,
      };
    default:
      return { type: 'text', text: `[${asString(part['type'], 'unknown')} content]` };
  }
}

function sameJson(text: string, value: unknown): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
  } catch {
    // The text is not JSON, so it is not the same value.
    return false;
  }
}
