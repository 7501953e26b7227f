import type { Entry } from '../event/types.ts';
import { omitUndefined, type JsonObject } from '../json.ts';
import { STOP, toolBlock, usageOf } from './messages-api.ts';
import type { OutputMessage } from './types.ts';

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;

/**
 * An open API message of one speaker: the agent, or a sub-agent, named by the call that started it.
 */
interface OpenMessage {
  readonly id: string;
  readonly parent: string | null;
  /** Open blocks by the id of their text or call. */
  readonly blocks: Map<string, EncodedBlock>;
  count: number;
}

interface EncodedBlock {
  readonly index: number;
  /** Whether deltas were sent for it. */
  streamed: boolean;
}

/**
 * The open Messages API messages of a run, one per speaker. A step or the first delta opens one.
 * The methods return the lines to send; `line` adds the members that every line has.
 */
export class ApiMessages {
  model = 'agent';
  /** How many messages were opened. */
  steps = 0;
  readonly #speaking = new Map<string, OpenMessage>();
  readonly #task: string;
  readonly #line: (fields: OutputMessage) => OutputMessage;

  constructor(task: string, line: (fields: OutputMessage) => OutputMessage) {
    this.#task = task;
    this.#line = line;
  }

  /** The open message of a speaker. Opens one if needed: not every agent reports steps. */
  #in(
    parent: string | null,
    seq: number,
  ): { readonly speaking: OpenMessage; opening: OutputMessage[] } {
    const known = this.#speaking.get(parent ?? '');
    if (known) return { speaking: known, opening: [] };
    const opening = this.start(parent, seq);
    return { speaking: this.#speaking.get(parent ?? '') as OpenMessage, opening };
  }

  start(parent: string | null, seq: number): OutputMessage[] {
    const id = `msg_${this.#task}_${seq}`;
    const speaking: OpenMessage = { id, parent, blocks: new Map(), count: 0 };
    this.#speaking.set(parent ?? '', speaking);
    this.steps += 1;
    const message = { ...this.#message(speaking, []), usage: usageOf(undefined) };
    return this.#event(speaking, { type: 'message_start', message });
  }

  close(parent: string | null, end?: Of<'step.finished'>): OutputMessage[] {
    const speaking = this.#speaking.get(parent ?? '');
    this.forget(parent);
    return speaking ? this.#closing(speaking, end) : [];
  }

  closeAll(): OutputMessage[] {
    const closing = this.closing();
    this.#speaking.clear();
    return closing;
  }

  /** The lines that close everything. Changes no state. */
  closing(): OutputMessage[] {
    return [...this.#speaking.values()].flatMap((speaking) => this.#closing(speaking));
  }

  /** Drops the open message, which is void; the next delta opens another. */
  forget(parent: string | null): void {
    this.#speaking.delete(parent ?? '');
  }

  #closing(speaking: OpenMessage, end?: Of<'step.finished'>): OutputMessage[] {
    const stops = [...speaking.blocks.values()].flatMap(({ index }) =>
      this.#event(speaking, { type: 'content_block_stop', index }),
    );
    const stop_reason = end?.reason === undefined ? 'end_turn' : STOP[end.reason];
    return [
      ...stops,
      ...this.#event(speaking, {
        type: 'message_delta',
        delta: { stop_reason, stop_sequence: null },
        usage: usageOf(end?.usage),
      }),
      ...this.#event(speaking, { type: 'message_stop' }),
    ];
  }

  openBlock(
    parent: string | null,
    seq: number,
    key: string,
    content_block: JsonObject,
  ): OutputMessage[] {
    const { speaking, opening } = this.#in(parent, seq);
    const index = speaking.count++;
    speaking.blocks.set(key, { index, streamed: false });
    return [
      ...opening,
      ...this.#event(speaking, { type: 'content_block_start', index, content_block }),
    ];
  }

  delta(
    parent: string | null,
    { id, seq }: Of<'text.delta' | 'reasoning.delta'>,
    kind: 'text' | 'thinking',
    delta: JsonObject,
  ): OutputMessage[] {
    const key = `${kind} ${id}`;
    const opening = this.#speaking.get(parent ?? '')?.blocks.has(key)
      ? []
      : this.openBlock(parent, seq, key, { type: kind, [kind]: '' });
    return [...opening, ...this.#blockDelta(parent, key, delta)];
  }

  #blockDelta(parent: string | null, key: string, delta: JsonObject): OutputMessage[] {
    const speaking = this.#speaking.get(parent ?? '');
    const block = speaking?.blocks.get(key);
    if (!speaking || !block) return [];
    block.streamed = true;
    return this.#event(speaking, { type: 'content_block_delta', index: block.index, delta });
  }

  args(parent: string | null, callId: string, partial_json: string): OutputMessage[] {
    return this.#blockDelta(parent, callId, { type: 'input_json_delta', partial_json });
  }

  endBlock(
    parent: string | null,
    { type, id, text, signature }: Of<'text.end' | 'reasoning.end'>,
  ): OutputMessage[] {
    const kind = type === 'text.end' ? 'text' : 'thinking';
    const key = `${kind} ${id}`;
    if (!this.#speaking.get(parent ?? '')?.blocks.has(key)) return [];
    const signed =
      signature === undefined
        ? []
        : this.#blockDelta(parent, key, { type: 'signature_delta', signature });
    const block = omitUndefined({ type: kind, [kind]: text, signature });
    return [...signed, ...this.#stopBlock(parent, key, block)];
  }

  called(parent: string | null, entry: Of<'tool.called'>): OutputMessage[] {
    const { callId, args } = entry;
    const input = args ?? {};
    const opening = this.#speaking.get(parent ?? '')?.blocks.has(callId)
      ? []
      : this.openBlock(parent, entry.seq, callId, toolBlock(entry));
    const { blocks } = this.#speaking.get(parent ?? '') as OpenMessage;
    const { streamed } = blocks.get(callId) as EncodedBlock;
    return [
      ...opening,
      ...(streamed ? [] : this.args(parent, callId, JSON.stringify(input))),
      ...this.#stopBlock(parent, callId, { ...toolBlock(entry), input }),
    ];
  }

  /** Sends the complete block before its stop event, in the order of the official CLI. */
  #stopBlock(parent: string | null, key: string, content: JsonObject): OutputMessage[] {
    const speaking = this.#speaking.get(parent ?? '') as OpenMessage;
    const { index } = speaking.blocks.get(key) as EncodedBlock;
    speaking.blocks.delete(key);
    const message = this.#message(speaking, [content]);
    return [
      this.#line({ type: 'assistant', message, parent_tool_use_id: parent }),
      ...this.#event(speaking, { type: 'content_block_stop', index }),
    ];
  }

  #message({ id }: OpenMessage, content: readonly JsonObject[]): JsonObject {
    return {
      id,
      type: 'message',
      role: 'assistant',
      model: this.model,
      content,
      stop_reason: null,
      stop_sequence: null,
      usage: usageOf(undefined),
    };
  }

  /** A stream event; none for a sub-agent, which gets complete blocks only. */
  #event({ parent }: OpenMessage, event: JsonObject): OutputMessage[] {
    if (parent !== null) return [];
    return [this.#line({ type: 'stream_event', event, parent_tool_use_id: null })];
  }
}
