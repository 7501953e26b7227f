import { type DuolaneError, errorMessage, invalid } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { ToolResult } from '../types.ts';

const text = (value: string): JsonObject => ({ type: 'text', text: value });

/**
 * Encodes what a handler returned as a tool result. Throws `invalid` with the reason if that is not
 * possible.
 */
export function toResult(returned: unknown): ToolResult {
  if (typeof returned === 'string') return { content: [text(returned)] };
  if (!isObject(returned))
    throw invalidReturn(returned === undefined ? 'nothing' : kindOf(returned));
  const { content, structuredContent } = returned;
  if (content === undefined && structuredContent !== undefined)
    return { ...returned, content: [text(JSON.stringify(structuredContent))] };
  if (!Array.isArray(content)) throw invalidReturn('an object without `content`');
  const odd = content.find((block) => !isObject(block) || typeof block['type'] !== 'string');
  if (odd !== undefined) throw invalidReturn(`a block without a type (${kindOf(odd)})`);
  return returned as ToolResult;
}

/**
 * Encodes an error as a result: a failed tool is text that the model can read, not an exception.
 */
export function errorResult(reason: unknown): ToolResult {
  return { content: [text(`Error: ${errorMessage(reason)}`)], isError: true };
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;

const invalidReturn = (what: string): DuolaneError =>
  invalid(`the tool returned ${what}: expected a string or { content: [{ type: 'text', text }] }`);
