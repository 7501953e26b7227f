import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';

/** A tool that the model called, as the message lane showed it. */
export interface ToolUse {
  readonly id: string;
  /** As the model sees it: `mcp__server__tool`, or a built-in name. */
  readonly name: string;
  readonly input: unknown;
  /** Absent while it runs. */
  readonly isError?: boolean;
  /** What the model was given, unless it was larger than 64 KiB. */
  readonly content?: unknown;
}

const KEPT = 1000;
const CONTENT_CHARS = 64 * 1024;

/** The tool calls of a session, oldest first; the last thousand. */
export class Calls {
  readonly #calls = new Map<string, ToolUse>();

  get all(): readonly ToolUse[] {
    return [...this.#calls.values()];
  }

  /** `length` is that of the line that carried the message. */
  observe(message: JsonObject, length: number): void {
    const type = message['type'];
    if (type !== 'assistant' && type !== 'user') return;
    const inner = message['message'];
    const content = isObject(inner) ? inner['content'] : undefined;
    if (!Array.isArray(content)) return;
    for (const block of content) {
      if (!isObject(block)) continue;
      if (type === 'assistant' && block['type'] === 'tool_use') this.#called(block);
      else if (type === 'user' && block['type'] === 'tool_result') this.#answered(block, length);
    }
  }

  #called({ id, name, input }: JsonObject): void {
    if (typeof id !== 'string' || this.#calls.has(id)) return;
    this.#calls.set(id, { id, name: String(name), input });
    if (this.#calls.size <= KEPT) return;
    const [oldest] = this.#calls.keys();
    this.#calls.delete(oldest as string);
  }

  #answered({ tool_use_id: id, is_error, content }: JsonObject, length: number): void {
    const call = this.#calls.get(String(id));
    if (!call) return;
    const isError = is_error === true;
    this.#calls.set(call.id, { ...call, isError, ...(length <= CONTENT_CHARS && { content }) });
  }
}

/**
 * The last call of a tool, by the name that the model sees or, for an in-process server, its bare
 * name. Throws `tool` when it was not called, has no answer, or (unless `isError` allows it) failed,
 * and says which were called instead.
 */
export function expectToolCalled(
  session: { readonly calls: readonly ToolUse[] },
  name: string,
  { isError = false }: { readonly isError?: boolean } = {},
): ToolUse {
  const { calls } = session;
  const call = calls.findLast((each) => each.name === name || each.name.endsWith(`__${name}`));
  if (!call) {
    const others = [...new Set(calls.map((each) => each.name))].join(', ') || 'none';
    throw new DuolaneError('tool', `${name} was not called (called: ${others})`);
  }
  if (call.isError === undefined)
    throw new DuolaneError('tool', `${name} was called as ${call.id} and has no answer`);
  if (call.isError !== isError) {
    const how = call.isError ? 'failed' : 'succeeded';
    throw new DuolaneError('tool', `${name} ${how}: ${JSON.stringify(call.content)}`);
  }
  return call;
}
