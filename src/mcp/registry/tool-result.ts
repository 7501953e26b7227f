import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';
import type { ToolResult } from '../types.ts';

const text = (value: string): JsonObject => ({ type: 'text', text: value });

/** What a handler returned, as the wire has it; `invalid` with the reason if it is no result. */
export function toResult(returned: unknown): ToolResult {
  if (typeof returned === 'string') return { content: [text(returned)] };
  if (!isObject(returned)) throw invalid(returned === undefined ? 'nothing' : kindOf(returned));
  const { content, structuredContent } = returned;
  if (content === undefined && structuredContent !== undefined)
    return { ...returned, content: [text(JSON.stringify(structuredContent))] };
  if (!Array.isArray(content)) throw invalid('an object without `content`');
  const odd = content.find((block) => !isObject(block) || typeof block['type'] !== 'string');
  if (odd !== undefined) throw invalid(`a block without a type (${kindOf(odd)})`);
  return returned as ToolResult;
}

/** A failed tool is an answer that the model can read, not an exception. */
export function errorResult(reason: unknown): ToolResult {
  const message = reason instanceof Error ? reason.message : String(reason);
  return { content: [text(`Error: ${message}`)], isError: true };
}

const kindOf = (value: unknown): string =>
  value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`;

const invalid = (what: string): DuolaneError =>
  new DuolaneError(
    'invalid',
    `the tool returned ${what}; return a string or { content: [{ type: 'text', text }] }`,
  );
