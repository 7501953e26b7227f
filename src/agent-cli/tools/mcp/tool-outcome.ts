import type { ToolResult } from '../../../mcp/types.ts';
import { type Block, contentText } from '../../models/types.ts';
import { asObject, asString, type JsonObject } from '../../../json.ts';
import type { ToolOutcome } from '../types.ts';

/**
 * Converts the result of an MCP tool for the model: text and images stay, the rest becomes text.
 */
export function toOutcome(server: string, result: ToolResult): ToolOutcome {
  const blocks = result.content.map((part) => toBlock(server, part));
  if (result.isError) {
    const text = contentText(blocks) || 'The tool failed without an error message.';
    return { content: text, isError: true, raw: `Error: ${text}` };
  }
  const structured = result.structuredContent;
  // Most servers repeat their structured content as text. Add it only if the text is missing.
  const isRepeated = blocks.some(
    (block) => block.type === 'text' && sameJson(asString(block['text']), structured),
  );
  if (structured !== undefined && !isRepeated)
    blocks.push({ type: 'text', text: JSON.stringify(structured) });
  const raw =
    structured === undefined ? blocks : { content: blocks, structuredContent: structured };
  return { content: blocks, isError: false, raw };
}

function toBlock(server: string, part: JsonObject): Block {
  switch (part['type']) {
    case 'text':
      return { type: 'text', text: asString(part['text']) };
    case 'image':
      return {
        type: 'image',
        source: { type: 'base64', media_type: part['mimeType'], data: part['data'] },
      };
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
