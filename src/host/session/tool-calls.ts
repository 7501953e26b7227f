import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** A tool that the model called, as the message lane showed it. */
export interface ToolUse {
  readonly id: string;
  /** As the model sees it: `mcp__server__tool`, or a built-in name. */
  readonly name: string;
  /** What the model gave it; absent if it was larger than 64 KiB, or the call is long past. */
  readonly input?: unknown;
  /** Absent while it runs. */
  readonly isError?: boolean;
  /** What the model was given; absent if it was larger than 64 KiB, or the call is long past. */
  readonly content?: unknown;
}

const KEPT = 1000;
const CONTENT_CHARS = 64 * 1024;
/** What all inputs and contents together may take; the oldest are dropped. */
const TOTAL_CHARS = 8 * 1024 * 1024;

interface Kept {
  readonly use: ToolUse;
  /** Characters of its input and content, about. */
  readonly size: number;
}

/** The tool calls of a session, oldest first; the last thousand. */
export class ToolCallLog {
  readonly #calls = new Map<string, Kept>();
  #size = 0;

  get all(): readonly ToolUse[] {
    return [...this.#calls.values()].map(({ use }) => use);
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
      if (type === 'assistant' && block['type'] === 'tool_use') this.#called(block, length);
      else if (type === 'user' && block['type'] === 'tool_result') this.#answered(block, length);
    }
  }

  #called({ id, name, input }: JsonObject, length: number): void {
    if (typeof id !== 'string' || this.#calls.has(id)) return;
    // A line may hold several calls: only for a long one is each looked at.
    const size = length <= CONTENT_CHARS ? length : sizeOf(input);
    const isKept = size <= CONTENT_CHARS;
    const use = { id, name: String(name), ...(isKept && { input }) };
    this.#keep(use, isKept ? size : 0);
    if (this.#calls.size <= KEPT) return;
    const [oldest] = this.#calls;
    if (!oldest) return;
    this.#calls.delete(oldest[0]);
    this.#size -= oldest[1].size;
  }

  #answered({ tool_use_id: id, is_error, content }: JsonObject, length: number): void {
    const call = this.#calls.get(String(id));
    if (!call) return;
    const isError = is_error === true;
    const isKept = length <= CONTENT_CHARS;
    const use = { ...call.use, isError, ...(isKept && { content }) };
    this.#keep(use, call.size + (isKept ? length : 0));
  }

  #keep(use: ToolUse, size: number): void {
    this.#size += size - (this.#calls.get(use.id)?.size ?? 0);
    this.#calls.set(use.id, { use, size });
    if (this.#size <= TOTAL_CHARS) return;
    for (const [id, { use: old, size: held }] of this.#calls) {
      if (held === 0 || id === use.id) continue;
      const { input: _, content: __, ...rest } = old;
      this.#calls.set(id, { use: rest, size: 0 });
      this.#size -= held;
      if (this.#size <= TOTAL_CHARS / 2) return;
    }
  }
}

function sizeOf(value: unknown): number {
  return (JSON.stringify(value) ?? '').length;
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
