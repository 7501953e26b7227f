import { DuolaneError } from '../../errors.ts';
import { isObject, type JsonObject } from '../../json.ts';

/** A tool call of the model, read from the message lane. */
export interface ToolUse {
  readonly id: string;
  /** The name that the model sees: `mcp__server__tool`, or a built-in name. */
  readonly name: string;
  /**
   * The arguments; absent if larger than 64 KiB, or dropped because newer calls needed the memory.
   */
  readonly input?: unknown;
  /** Whether the call failed; absent while it runs. */
  readonly isError?: boolean;
  /** The result that the model got; absent under the same conditions as `input`. */
  readonly content?: unknown;
}

const KEPT = 1000;
const CONTENT_CHARS = 64 * 1024;
/** The limit of all inputs and contents together; the oldest are dropped. */
const TOTAL_CHARS = 8 * 1024 * 1024;

interface Kept {
  readonly use: ToolUse;
  /** The approximate number of characters of its input and content. */
  readonly size: number;
}

/** The last thousand tool calls of a session, oldest first. */
export class ToolCallLog {
  readonly #calls = new Map<string, Kept>();
  #size = 0;

  get all(): readonly ToolUse[] {
    return [...this.#calls.values()].map(({ use }) => use);
  }

  /** Reads a message. `length` is that of its line. */
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
    // A line may contain several calls. Measuring each is expensive, so only those of a long line
    // are measured.
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
    for (const [id, { use: old, size: oldSize }] of this.#calls) {
      if (oldSize === 0 || id === use.id) continue;
      const { input: _, content: __, ...rest } = old;
      this.#calls.set(id, { use: rest, size: 0 });
      this.#size -= oldSize;
      if (this.#size <= TOTAL_CHARS / 2) return;
    }
  }
}

function sizeOf(value: unknown): number {
  return (JSON.stringify(value) ?? '').length;
}

/**
 * The last call of a tool, for tests of agents. The name is the one that the model sees or, for an
 * in-process server, the bare name. Throws `tool` if the tool was not called (with the names of
 * those that were), has no result yet, or failed; with `isError: true` it throws if the call
 * succeeded.
 *
 * @example
 * const { input } = expectToolCalled(session, 'create_ticket');
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
    throw new DuolaneError('tool', `${name} has no result yet (call ${call.id})`);
  if (call.isError !== isError) {
    const how = call.isError ? 'failed' : 'succeeded';
    throw new DuolaneError('tool', `${name} ${how}: ${JSON.stringify(call.content)}`);
  }
  return call;
}
