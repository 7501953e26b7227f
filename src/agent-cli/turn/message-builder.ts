import { randomUUID } from 'node:crypto';
import { isObject, type JsonObject } from '../../json.ts';
import {
  type Block,
  type ModelEvent,
  NO_USAGE,
  type ModelStopReason,
  type TokenUsage,
} from '../models/types.ts';

/** A piece of a model message, while it is streamed. */
export type AnswerPart =
  /** An event in the form of the Messages API, for `stream_event`. */
  | { readonly type: 'event'; readonly event: JsonObject }
  /** A block is complete; its `content_block_stop` event follows. */
  | { readonly type: 'block'; readonly index: number; readonly block: Block };

type Open =
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'thinking'; text: string; signature: string }
  | { readonly kind: 'tool_use'; readonly id: string; readonly name: string; json: string };

/**
 * Builds one model message: takes the driver's events, returns events and finished blocks in the
 * form of the Messages API. It is a pure state machine. Blocks are numbered from 0 without gaps,
 * each is opened and closed once, and the joined deltas of a block are its content.
 */
export class MessageBuilder {
  readonly #model: string;
  readonly #blocks: Block[] = [];
  #id: string = `msg_${randomUUID().replaceAll('-', '')}`;
  #started = false;
  #open: Open | undefined;
  #usage: TokenUsage = NO_USAGE;
  #stop: ModelStopReason | undefined;

  constructor(model: string) {
    this.#model = model;
  }

  get id(): string {
    return this.#id;
  }
  /** The finished blocks. */
  get blocks(): readonly Block[] {
    return this.#blocks;
  }
  get usage(): TokenUsage {
    return this.#usage;
  }
  /** Undefined until the `stop` event; a message without it is incomplete. */
  get stopReason(): ModelStopReason | undefined {
    return this.#stop;
  }
  /** Whether `message_start` was returned, so that a reader of raw events knows this message. */
  get started(): boolean {
    return this.#started;
  }

  receive(event: ModelEvent): AnswerPart[] {
    switch (event.type) {
      case 'start': {
        if (!this.#started && event.id !== undefined) this.#id = event.id;
        if (event.usage) this.#usage = event.usage;
        return this.#start();
      }
      case 'text': {
        const parts = this.#openAs('text', () => ({ kind: 'text', text: '' }));
        const open = this.#open as Extract<Open, { kind: 'text' }>;
        open.text += event.text;
        return event.text === ''
          ? parts
          : [...parts, this.#delta({ type: 'text_delta', text: event.text })];
      }
      case 'thinking': {
        const parts = this.#openAs('thinking', () => ({
          kind: 'thinking',
          text: '',
          signature: '',
        }));
        const open = this.#open as Extract<Open, { kind: 'thinking' }>;
        open.text += event.text;
        return event.text === ''
          ? parts
          : [...parts, this.#delta({ type: 'thinking_delta', thinking: event.text })];
      }
      case 'signature': {
        if (this.#open?.kind !== 'thinking') return [];
        this.#open.signature += event.signature;
        return [this.#delta({ type: 'signature_delta', signature: event.signature })];
      }
      case 'tool_use':
        return [
          ...this.#close(),
          ...this.#begin({ kind: 'tool_use', id: event.id, name: event.name, json: '' }),
        ];
      case 'tool_input': {
        if (this.#open?.kind !== 'tool_use' || event.json === '') return [];
        this.#open.json += event.json;
        return [this.#delta({ type: 'input_json_delta', partial_json: event.json })];
      }
      case 'block_end':
        return this.#close();
      case 'stop': {
        const parts = [...this.#start(), ...this.#close()];
        this.#stop = event.reason;
        this.#usage = event.usage;
        return [...parts, ...this.#end(event.reason)];
      }
    }
  }

  /**
   * Ends an interrupted message: an open text block becomes a finished block, an incomplete tool
   * call does not. Returns that block and the closing events.
   */
  abort(): {
    readonly block: Block | undefined;
    readonly index: number;
    readonly events: JsonObject[];
  } {
    const index = this.#blocks.length;
    const open = this.#open;
    this.#open = undefined;
    const block = open?.kind === 'text' && open.text !== '' ? finished(open) : undefined;
    if (block) this.#blocks.push(block);
    const stop = open ? [{ type: 'content_block_stop', index }] : [];
    const events = this.#started
      ? [...stop, ...this.#end(null).map((part) => (part.type === 'event' ? part.event : {}))]
      : [];
    return { block, index, events };
  }

  #start(): AnswerPart[] {
    if (this.#started) return [];
    this.#started = true;
    const message = {
      id: this.#id,
      type: 'message',
      role: 'assistant',
      model: this.#model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: this.#usage,
    };
    return [{ type: 'event', event: { type: 'message_start', message } }];
  }

  #openAs(kind: Open['kind'], make: () => Open): AnswerPart[] {
    if (this.#open?.kind === kind) return [];
    return [...this.#close(), ...this.#begin(make())];
  }

  #begin(open: Open): AnswerPart[] {
    this.#open = open;
    const event = {
      type: 'content_block_start',
      index: this.#blocks.length,
      content_block: empty(open),
    };
    return [...this.#start(), { type: 'event', event }];
  }

  #delta(delta: JsonObject): AnswerPart {
    const index = this.#blocks.length;
    return { type: 'event', event: { type: 'content_block_delta', index, delta } };
  }

  #close(): AnswerPart[] {
    if (!this.#open) return [];
    const [index, block] = [this.#blocks.length, finished(this.#open)];
    this.#open = undefined;
    this.#blocks.push(block);
    return [
      { type: 'block', index, block },
      { type: 'event', event: { type: 'content_block_stop', index } },
    ];
  }

  #end(reason: ModelStopReason | null): AnswerPart[] {
    const delta = { stop_reason: reason, stop_sequence: null };
    return [
      { type: 'event', event: { type: 'message_delta', delta, usage: this.#usage } },
      { type: 'event', event: { type: 'message_stop' } },
    ];
  }
}

function empty(open: Open): Block {
  switch (open.kind) {
    case 'text':
      return { type: 'text', text: '' };
    case 'thinking':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'tool_use':
      return { type: 'tool_use', id: open.id, name: open.name, input: {} };
  }
}

function finished(open: Open): Block {
  switch (open.kind) {
    case 'text':
      return { type: 'text', text: open.text };
    case 'thinking':
      return { type: 'thinking', thinking: open.text, signature: open.signature };
    case 'tool_use': {
      const input = parseInput(open.json);
      return { type: 'tool_use', id: open.id, name: open.name, input };
    }
  }
}

/**
 * The key for arguments that are not a JSON object. The input keeps their text under it, so that
 * the call is visible, and `runToolCall` refuses the call.
 */
export const MALFORMED_INPUT = '__malformed_input';

function parseInput(json: string): JsonObject {
  if (json.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(json);
    if (isObject(value)) return value;
  } catch {
    // Text that is not JSON is handled like JSON that is not an object.
  }
  return { [MALFORMED_INPUT]: json.slice(0, 2000) };
}
