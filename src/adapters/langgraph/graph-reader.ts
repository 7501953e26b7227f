import type { AgentEvent, Usage } from '../../event/types.ts';
import { addUsage } from '../../event/usage.ts';
import {
  asNumber,
  asObject,
  asObjects,
  asString,
  isObject,
  type JsonObject,
  omitUndefined,
} from '../../json.ts';
import { parsed, toolResultText, toolFailure } from '../shared/safe-read.ts';

/** A place in the graph that waits for a value from outside. */
export interface Interrupt {
  readonly id: string;
  readonly value: unknown;
  /** The tool call in which it happened. */
  readonly callId?: string;
}

interface OpenStep {
  readonly step: number;
  /** Which model call it is, and of which node. */
  readonly key: string;
  readonly node: string;
  readonly path: readonly string[];
  usage?: Usage;
  /** Only the first chunk of a call has its id; the others have its index. */
  readonly calls: Map<number, string>;
}

type Items = readonly AgentEvent[];

/**
 * Reads what a graph streams in several modes with subgraphs: `[namespace, mode, payload]`. Tokens
 * come from `messages`, calls from `tools`, questions and structured output from `updates`. A model
 * call inside a subgraph is a sub-agent's; its words are not those of the run.
 */
export class GraphReader {
  readonly #steps = new Map<string, OpenStep>();
  readonly #called = new Set<string>();
  readonly #args = new Map<string, unknown>();
  readonly #asking = new Map<string, string>();
  #interrupts: Interrupt[] = [];
  #count = 0;
  #spoke = false;
  /** What the graph itself answered last, for one whose words all came from subgraphs. */
  #answer = '';
  output: unknown;

  takeInterrupts(): readonly Interrupt[] {
    const interrupts = this.#interrupts;
    this.#interrupts = [];
    return interrupts;
  }

  /** The answer, if nothing of it was streamed. */
  get unsaid(): string {
    return this.#spoke ? '' : this.#answer;
  }

  read(item: unknown): Items {
    if (!Array.isArray(item)) return [];
    const [namespace, mode, payload] = item as [unknown, unknown, unknown];
    const path = Array.isArray(namespace) ? namespace.map(String) : [];
    switch (mode) {
      case 'messages':
        return Array.isArray(payload)
          ? this.#message(asObject(payload[0]), asObject(payload[1]), path)
          : [];
      case 'tools':
        return this.#tool(asObject(payload), agents(path));
      case 'custom':
        return [said(payload)];
      case 'updates':
        return this.#update(asObject(payload), path);
      default:
        return [];
    }
  }

  /** Nothing more comes: the last model calls are over. */
  end(): Items {
    return this.#finish(() => true);
  }

  #message(message: JsonObject, meta: JsonObject, path: readonly string[]): Items {
    const type = typeOf(message);
    if (type === 'tool') return this.#answered(message, agents(path));
    if (type !== 'ai') return [];
    const { started, step } = this.#step(asString(message['id']), meta, path);
    const common = step.path.length > 0 ? { path: step.path } : {};
    const id = `${step.step}:${asString(message['id'])}`;
    const isChunk = Array.isArray(message['tool_call_chunks']);
    const usage = readUsage(message['usage_metadata']);
    if (usage) step.usage = addUsage(step.usage, usage);
    const events: AgentEvent[] = [];
    const { words, thoughts } = contentOf(message);
    if (words !== '' && step.path.length === 0) this.#spoke = true;
    if (isChunk) {
      if (thoughts !== '')
        events.push({ type: 'reasoning.delta', id: `${id}:r`, delta: thoughts, ...common });
      if (words !== '') events.push({ type: 'text.delta', id, delta: words, ...common });
    } else {
      // Not streamed: a constant of the node, or a model that gives its answer whole.
      if (thoughts !== '')
        events.push({ type: 'reasoning.end', id: `${id}:r`, text: thoughts, ...common });
      if (words !== '') events.push({ type: 'text.end', id, text: words, ...common });
    }
    for (const chunk of asObjects(message['tool_call_chunks']))
      events.push(...argsOf(step, chunk).map((event) => ({ ...event, ...common })));
    return [...started, ...events];
  }

  #step(
    message: string,
    meta: JsonObject,
    namespace: readonly string[],
  ): { readonly started: Items; readonly step: OpenStep } {
    const key = `${namespace.join('|')}|${message}`;
    const node = asString(meta['langgraph_node']);
    const known = this.#steps.get(key);
    if (known) return { started: [], step: known };
    const path = agents(namespace);
    const before = this.#finish((step) => step.node === node && same(step.path, path));
    const step: OpenStep = { step: ++this.#count, key, node, path, calls: new Map() };
    this.#steps.set(key, step);
    const event: AgentEvent = { type: 'step.started', step: step.step, name: node, ...at(path) };
    return { started: [...before, event], step };
  }

  #finish(which: (step: OpenStep) => boolean): Items {
    return [...this.#steps.values()].filter(which).map((step): AgentEvent => {
      this.#steps.delete(step.key);
      const usage = step.usage && { usage: step.usage };
      return { type: 'step.finished', step: step.step, ...usage, ...at(step.path) };
    });
  }

  #update(update: JsonObject, namespace: readonly string[]): Items {
    const interrupts = update['__interrupt__'];
    if (interrupts !== undefined) {
      for (const { id, value } of asObjects(interrupts)) {
        const callId = this.#asking.get(asString(id));
        this.#interrupts.push({ id: asString(id), value, ...(callId !== undefined && { callId }) });
      }
      return this.end();
    }
    for (const change of Object.values(update).filter(isObject)) {
      if (change['structuredResponse'] !== undefined) this.output = change['structuredResponse'];
      for (const message of asObjects(change['messages']).filter((each) => typeOf(each) === 'ai')) {
        if (namespace.length === 0) this.#answer = contentOf(message).words;
        for (const call of asObjects(message['tool_calls']))
          this.#args.set(asString(call['id']), call['args']);
      }
    }
    const depth = agents([...namespace, '']);
    return this.#finish(({ node, path }) => node in update && same(path, depth));
  }

  #tool(event: JsonObject, path: readonly string[]): Items {
    const callId = asString(event['toolCallId']);
    const name = asString(event['name']);
    const common = { callId, name, ...at(path) };
    switch (event['event']) {
      case 'on_tool_start':
        this.#called.add(callId);
        return [{ type: 'tool.called', ...common, args: parsed(asString(event['input'])) }];
      case 'on_tool_event':
        return [{ type: 'tool.progress', callId, data: event['data'], ...at(path) }];
      case 'on_tool_end':
        return [ended(common, asObject(event['output']))];
      case 'on_tool_error': {
        const waits = asObjects(asObject(event['error'])['interrupts']);
        for (const { id } of waits) this.#asking.set(asString(id), callId);
        if (waits.length > 0) return [];
        return [{ type: 'tool.failed', ...common, error: toolFailure(event['error']) }];
      }
      default:
        return [];
    }
  }

  /** The result in the conversation; for tools that the graph runs itself, the only sign of them. */
  #answered(message: JsonObject, path: readonly string[]): Items {
    const callId = asString(message['tool_call_id']);
    const common = { callId, name: asString(message['name']), ...at(path) };
    const called: Items = this.#called.has(callId)
      ? []
      : [{ type: 'tool.called', ...common, args: this.#args.get(callId) ?? null }];
    return [...called, ended(common, message)];
  }
}

/** The first name is the node of the graph itself; what lies below it is a graph of its own. */
const agents = (namespace: readonly string[]): readonly string[] =>
  namespace.slice(0, -1).map((name) => name.split(':', 1)[0] ?? name);

const same = (a: readonly string[], b: readonly string[]): boolean => a.join('|') === b.join('|');

const at = (path: readonly string[]): { readonly path?: readonly string[] } =>
  path.length > 0 ? { path } : {};

function typeOf(message: JsonObject): string {
  const { getType } = message;
  const type: unknown = typeof getType === 'function' ? getType.call(message) : message['type'];
  return asString(type);
}

/** Text and thought of a message, whose content is a string or blocks. */
function contentOf(message: JsonObject): { readonly words: string; readonly thoughts: string } {
  const { content } = message;
  const aside = asString(asObject(message['additional_kwargs'])['reasoning_content']);
  if (typeof content === 'string') return { words: content, thoughts: aside };
  let words = '';
  let thoughts = aside;
  for (const block of asObjects(content)) {
    if (block['type'] === 'text' || block['type'] === 'text_delta')
      words += asString(block['text']);
    if (block['type'] === 'reasoning') thoughts += asString(block['reasoning']);
    if (block['type'] === 'thinking') thoughts += asString(block['thinking']);
  }
  return { words, thoughts };
}

function argsOf({ calls, step }: OpenStep, chunk: JsonObject): AgentEvent[] {
  const index = asNumber(chunk['index']) ?? 0;
  const given = asString(chunk['id']);
  const events: AgentEvent[] = [];
  if (given !== '' && calls.get(index) !== given) {
    calls.set(index, given);
    events.push({ type: 'tool.started', callId: given, name: asString(chunk['name']) });
  }
  const delta = asString(chunk['args']);
  const callId = calls.get(index) ?? `${step}:${index}`;
  if (delta !== '') events.push({ type: 'tool.args', callId, delta });
  return events;
}

function ended(
  common: { readonly callId: string; readonly name: string },
  message: JsonObject,
): AgentEvent {
  const { content = message, status } = message;
  if (status !== 'error') return { type: 'tool.completed', ...common, output: content };
  return { type: 'tool.failed', ...common, error: toolFailure(toolResultText(content)) };
}

function said(payload: unknown): AgentEvent {
  const { message } = asObject(payload);
  const words =
    typeof payload === 'string' ? payload : asString(message) || JSON.stringify(payload);
  return { type: 'status', message: words, ...(isObject(payload) && { data: payload }) };
}

function readUsage(value: unknown): Usage | undefined {
  if (!isObject(value)) return undefined;
  const input = asObject(value['input_token_details']);
  return omitUndefined<Usage>({
    inputTokens: asNumber(value['input_tokens']),
    outputTokens: asNumber(value['output_tokens']),
    reasoningTokens: asNumber(asObject(value['output_token_details'])['reasoning']),
    cacheReadTokens: asNumber(input['cache_read']),
    cacheWriteTokens: asNumber(input['cache_creation']),
  });
}
