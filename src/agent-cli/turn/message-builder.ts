import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../json.ts';
import { InvalidLine, parseLine } from '../../wire/jsonl.ts';
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

type OpenText =
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'thinking'; text: string; signature: string };
type Open =
  | OpenText
  | { readonly kind: 'redacted_thinking'; readonly data: string }
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
      case 'text':
        return this.#append({ kind: 'text', text: '' }, event.text, {
          type: 'text_delta',
          text: event.text,
        });
      case 'thinking':
        return this.#append({ kind: 'thinking', text: '', signature: '' }, event.text, {
          type: 'thinking_delta',
          thinking: event.text,
        });
      case 'signature': {
        if (this.#open?.kind !== 'thinking') return [];
        this.#open.signature += event.signature;
        return [this.#delta({ type: 'signature_delta', signature: event.signature })];
      }
      case 'redacted_thinking':
        return [
          ...this.#close(),
          ...this.#begin({ kind: 'redacted_thinking', data: event.data }),
          ...this.#close(),
        ];
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
        // Whether the arguments are missing or were cut off, is known with the next event.
        return this.#lacksInput ? [] : this.#close();
      case 'stop': {
        const isCut = event.reason === 'max_tokens' && this.#lacksInput;
        const parts = [...this.#start(), ...this.#close(isCut ? CUT_OFF : undefined)];
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
    const block = open?.kind === 'text' && open.text !== '' ? toBlock(open) : undefined;
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
    const message = apiMessage({ id: this.#id, model: this.#model, usage: this.#usage }, []);
    return [{ type: 'event', event: { type: 'message_start', message } }];
  }

  /** Adds text to the open block, if it is of the same kind, else to the new block `begun`. */
  #append(begun: OpenText, text: string, delta: JsonObject): AnswerPart[] {
    const parts = this.#open?.kind === begun.kind ? [] : [...this.#close(), ...this.#begin(begun)];
    (this.#open as OpenText).text += text;
    return text === '' ? parts : [...parts, this.#delta(delta)];
  }

  #begin(open: Open): AnswerPart[] {
    this.#open = open;
    const event = {
      type: 'content_block_start',
      index: this.#blocks.length,
      content_block: toBlock(open),
    };
    return [...this.#start(), { type: 'event', event }];
  }

  #delta(delta: JsonObject): AnswerPart {
    const index = this.#blocks.length;
    return { type: 'event', event: { type: 'content_block_delta', index, delta } };
  }

  /** Whether the open block is a call without arguments so far. */
  get #lacksInput(): boolean {
    return this.#open?.kind === 'tool_use' && this.#open.json.trim() === '';
  }

  /** Closes the open block; `input` replaces the arguments of a call. */
  #close(input?: JsonObject): AnswerPart[] {
    if (!this.#open) return [];
    const index = this.#blocks.length;
    const block = input ? { ...toBlock(this.#open), input } : toBlock(this.#open);
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

/** A block with its content so far. */
function toBlock(open: Open): Block {
  switch (open.kind) {
    case 'text':
      return { type: 'text', text: open.text };
    case 'thinking':
      return { type: 'thinking', thinking: open.text, signature: open.signature };
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: open.data };
    case 'tool_use': {
      const input = parseInput(open.json);
      return { type: 'tool_use', id: open.id, name: open.name, input };
    }
  }
}

/** A model message in the form of the Messages API. `end` replaces the open end. */
export const apiMessage = (
  { id, model, usage }: { readonly id: string; readonly model: string; readonly usage: TokenUsage },
  content: readonly Block[],
  end: JsonObject = { stop_reason: null, stop_sequence: null },
): JsonObject => ({ id, type: 'message', role: 'assistant', model, content, ...end, usage });

/**
 * The key for arguments that are not a JSON object. The input keeps their text under it, so that
 * the call is visible, and `runToolCall` refuses the call.
 */
export const MALFORMED_INPUT = '__malformed_input';

/**
 * The input of a call whose message ended at its limit before the arguments. Without it, the call
 * would be made with no arguments, which may mean "all" to a tool.
 */
const CUT_OFF: JsonObject = { [MALFORMED_INPUT]: 'nothing: the message reached max_tokens' };

function parseInput(json: string): JsonObject {
  if (json.trim() === '') return {};
  const value = parseLine(json);
  return value instanceof InvalidLine ? { [MALFORMED_INPUT]: json.slice(0, 2000) } : value;
}
