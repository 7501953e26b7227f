import type { JsonObject } from '../../../json.ts';
import type { ToolResult } from '../../../mcp/types.ts';
import type { Block } from '../../models/types.ts';
import { asObject, asString } from '../../../json.ts';
import type { ToolOutcome } from '../types.ts';

/** A result of an MCP server as the model sees it: text and images stay, the rest becomes text. */
export function toOutcome(server: string, result: ToolResult): ToolOutcome {
  const blocks = result.content.map((part) => toBlock(server, part));
  if (result.isError) {
    const text =
      blocks.map((block) => asString(block['text'])).join('\n') ||
      'The tool failed and said nothing.';
    return { content: text, isError: true, raw: `Error: ${text}` };
  }
  const structured = result.structuredContent;
  // Servers repeat their structured content as text; only one that does not gets it added.
  const told = blocks.some(
    (block) => block.type === 'text' && sameJson(asString(block['text']), structured),
  );
  if (structured !== undefined && !told)
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
    // Text that is not JSON is not the same value.
    return false;
  }
}
