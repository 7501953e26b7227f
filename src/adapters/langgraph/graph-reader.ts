import type { AgentEvent, OpenCall, Usage } from '../../event/types.ts';
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
import { textEvents } from '../shared/framework-agent.ts';
import { parsed, toolResultText, toolFailure } from '../shared/tool-failure.ts';

/** An `interrupt()` of the graph that waits for a value. */
export interface Interrupt {
  readonly id: string;
  readonly value: unknown;
  /** The tool call that contains it. */
  readonly callId?: string;
}

interface OpenStep {
  readonly step: number;
  /** The namespace and the message id of the model call. */
  readonly key: string;
  readonly node: string;
  readonly path: readonly string[];
  usage?: Usage;
  /** Call ids by index: only the first chunk of a call has its id. */
  readonly calls: Map<number, string>;
}

type Items = readonly AgentEvent[];

/**
 * Reads the stream of a graph in several modes with subgraphs: `[namespace, mode, payload]`. Tokens
 * come from `messages`, calls from `tools`, questions and structured output from `updates`. A model
 * call inside a subgraph belongs to a sub-agent; its text is not that of the run.
 */
export class GraphReader {
  readonly #steps = new Map<string, OpenStep>();
  readonly #called = new Set<string>();
  readonly #args = new Map<string, unknown>();
  readonly #asking = new Map<string, string>();
  /** Calls that an earlier run of the turn has left open. */
  readonly #open: Map<string, OpenCall>;
  readonly #interrupts: Interrupt[] = [];
  #count = 0;
  #spoke = false;
  /**
   * The last message of the graph itself, for a graph whose streamed text all came from subgraphs.
   */
  #answer = '';
  output: unknown;

  constructor(open: readonly OpenCall[] = []) {
    this.#open = new Map(open.map((call) => [call.callId, call]));
  }

  takeInterrupts(): readonly Interrupt[] {
    return this.#interrupts.splice(0);
  }

  /** The last message, if nothing of it was streamed. */
  get unstreamedText(): string {
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
        return [customStatus(payload)];
      case 'updates':
        return this.#update(asObject(payload), path);
      default:
        return [];
    }
  }

  /**
   * The ends of open calls that have a result among these messages: the graph had it before the
   * crash, and does not make the call again.
   */
  endsIn(messages: readonly JsonObject[]): Items {
    return messages.flatMap((message) => {
      const call = typeOf(message) === 'tool' && this.#open.get(callIdOf(message));
      if (!call) return [];
      this.#open.delete(call.callId);
      return [ended({ callId: call.callId, name: call.name }, message)];
    });
  }

  /** Ends the open steps. Call it at the end of the stream. */
  end(): Items {
    return this.#finish(() => true);
  }

  #message(message: JsonObject, meta: JsonObject, path: readonly string[]): Items {
    const type = typeOf(message);
    if (type === 'tool') return this.#answered(message, agents(path));
    if (type !== 'ai') return [];
    const { started, step } = this.#step(asString(message['id']), meta, path);
    const id = `${step.step}:${asString(message['id'])}`;
    // Not streamed: a constant of the node, or a model that returns complete messages.
    const isChunk = Array.isArray(message['tool_call_chunks']);
    const usage = readUsage(message['usage_metadata']);
    if (usage) step.usage = addUsage(step.usage, usage);
    const { text, thoughts } = contentOf(message);
    if (text !== '' && step.path.length === 0) this.#spoke = true;
    const events = [
      ...textEvents('reasoning', `${id}:r`, thoughts, isChunk),
      ...textEvents('text', id, text, isChunk),
      ...asObjects(message['tool_call_chunks']).flatMap((chunk) => argsOf(step, chunk)),
    ];
    return [...started, ...events.map((event) => ({ ...event, ...at(step.path) }))];
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
    const ends: AgentEvent[] = [];
    for (const change of Object.values(update).filter(isObject)) {
      if (change['structuredResponse'] !== undefined) this.output = change['structuredResponse'];
      const messages = asObjects(change['messages']);
      ends.push(...this.endsIn(messages));
      for (const message of messages.filter((each) => typeOf(each) === 'ai')) {
        if (namespace.length === 0) this.#answer = contentOf(message).text;
        for (const call of asObjects(message['tool_calls']))
          this.#args.set(asString(call['id']), call['args']);
      }
    }
    const depth = agents([...namespace, '']);
    return [...ends, ...this.#finish(({ node, path }) => node in update && same(path, depth))];
  }

  #tool(event: JsonObject, path: readonly string[]): Items {
    const callId = asString(event['toolCallId']);
    const name = asString(event['name']);
    const common = { callId, name, ...at(path) };
    switch (event['event']) {
      case 'on_tool_start':
        this.#called.add(callId);
        this.#open.delete(callId);
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

  /** A tool message. For tools that the graph runs itself it is the only sign of the call. */
  #answered(message: JsonObject, path: readonly string[]): Items {
    const callId = callIdOf(message);
    const common = { callId, name: asString(message['name']), ...at(path) };
    const called: Items = this.#called.has(callId)
      ? []
      : [{ type: 'tool.called', ...common, args: this.#args.get(callId) ?? null }];
    return [...called, ended(common, message)];
  }
}

/**
 * The names of the sub-agents: the last segment is the node that runs, those before it are
 * subgraphs.
 */
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

/** The call whose result the message has; empty for any other message. */
const callIdOf = (message: JsonObject): string => asString(message['tool_call_id']);

/** The text of a message of a model; of any other message, none. */
export const aiText = (message: JsonObject): string =>
  typeOf(message) === 'ai' ? contentOf(message).text : '';

/** The text and the reasoning of a message, whose content is a string or blocks. */
function contentOf(message: JsonObject): { readonly text: string; readonly thoughts: string } {
  const { content } = message;
  const aside = asString(asObject(message['additional_kwargs'])['reasoning_content']);
  if (typeof content === 'string') return { text: content, thoughts: aside };
  let text = '';
  let thoughts = aside;
  for (const block of asObjects(content)) {
    if (block['type'] === 'text' || block['type'] === 'text_delta') text += asString(block['text']);
    if (block['type'] === 'reasoning') thoughts += asString(block['reasoning']);
    if (block['type'] === 'thinking') thoughts += asString(block['thinking']);
  }
  return { text, thoughts };
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

/** A custom payload of a node as a status. */
function customStatus(payload: unknown): AgentEvent {
  const { message } = asObject(payload);
  const text = typeof payload === 'string' ? payload : asString(message) || JSON.stringify(payload);
  return { type: 'status', message: text, ...(isObject(payload) && { data: payload }) };
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
