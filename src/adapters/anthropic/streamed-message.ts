import type { JsonObject } from '../../json.ts';
import { asNumber, asObject, asString, omitUndefined } from '../../json.ts';
import type { Pending } from '../shared/approval.ts';
import { parsed } from '../shared/tool-failure.ts';

/** A tool call of the model. */
export type WantedCall = Pending;

/** A block of a message, and the JSON text of its `input` as the model wrote it. */
interface StreamedBlock {
  readonly block: JsonObject;
  readonly json: string;
}

/** A complete message as the log keeps it. */
export interface StoredMessage {
  /** The members of `message_start` and of `message_delta` that readers of the run get. */
  readonly start: JsonObject;
  readonly end: JsonObject;
  readonly blocks: readonly (readonly [index: number, block: StreamedBlock])[];
}

/**
 * Builds a message of the Messages API from its stream events, as the next request must repeat it.
 */
export class StreamedMessage {
  readonly #blocks: Map<number, StreamedBlock>;
  #start: JsonObject;
  #end: JsonObject;

  /** With `stored`, the message is complete. */
  constructor({ blocks, start, end }: StoredMessage = { blocks: [], start: {}, end: {} }) {
    this.#blocks = new Map(blocks);
    this.#start = start;
    this.#end = end;
  }

  /** The `stop_reason` of the API; undefined while the message is incomplete. */
  get stopReason(): string | undefined {
    const { delta } = this.#end;
    return delta === undefined ? undefined : asString(asObject(delta)['stop_reason']);
  }

  get stored(): StoredMessage {
    return { start: this.#start, end: this.#end, blocks: [...this.#blocks] };
  }

  take(event: JsonObject): void {
    const index = asNumber(event['index']) ?? 0;
    switch (event['type']) {
      case 'message_start': {
        const { id, usage } = asObject(event['message']);
        this.#start = omitUndefined<JsonObject>({ id, usage });
        return;
      }
      case 'content_block_start':
        this.#blocks.set(index, { block: asObject(event['content_block']), json: '' });
        return;
      case 'content_block_delta':
        this.#extend(index, asObject(event['delta']));
        return;
      case 'message_delta':
        this.#end = omitUndefined<JsonObject>({
          delta: { stop_reason: asObject(event['delta'])['stop_reason'] },
          usage: event['usage'],
        });
        return;
      default:
        return;
    }
  }

  /** Stream events that show readers the complete message, each block as one delta. */
  *events(): Generator<JsonObject, void, undefined> {
    yield { type: 'message_start', message: this.#start };
    for (const [index, { block, json }] of this.#blocks) {
      yield { type: 'content_block_start', index, content_block: block };
      for (const [type, field, value] of [
        ['thinking_delta', 'thinking', block['thinking']],
        ['text_delta', 'text', block['text']],
        ['input_json_delta', 'partial_json', json],
      ] as const)
        if (typeof value === 'string' && value !== '')
          yield { type: 'content_block_delta', index, delta: { type, [field]: value } };
      yield { type: 'content_block_stop', index };
    }
    yield { type: 'message_delta', ...this.#end };
    yield { type: 'message_stop' };
  }

  /** What the API accepts in the next request: only objects as `input`, and no empty texts. */
  get content(): readonly JsonObject[] {
    return [...this.#blocks.values()]
      .filter(({ block }) => block['type'] !== 'text' || asString(block['text']).trim() !== '')
      .map(({ block, json }) =>
        json === '' ? block : { ...block, input: asObject(parsed(json)) },
      );
  }

  /** The calls. Arguments that are incomplete or not JSON are text: the call must not be made. */
  get calls(): readonly WantedCall[] {
    const blocks = [...this.#blocks.values()];
    const isCut = this.stopReason === 'max_tokens';
    return blocks.flatMap(({ block, json }, index) => {
      const { type, id, name, input } = block;
      if (type !== 'tool_use') return [];
      const lacksArgs = json === '' && isCut && index === blocks.length - 1;
      const args = lacksArgs ? '' : json === '' ? input : parsed(json);
      return [{ callId: asString(id), name: asString(name), args }];
    });
  }

  get text(): string {
    return [...this.#blocks.values()]
      .filter(({ block }) => block['type'] === 'text')
      .map(({ block }) => asString(block['text']))
      .join('');
  }

  #extend(index: number, delta: JsonObject): void {
    const known = this.#blocks.get(index);
    if (!known) return;
    let { block } = known;
    for (const field of ['text', 'thinking', 'signature'])
      if (typeof delta[field] === 'string')
        block = { ...block, [field]: asString(block[field]) + delta[field] };
    this.#blocks.set(index, { block, json: known.json + asString(delta['partial_json']) });
  }
}

/**
 * Gives each call of a run its own id: an approval and a result belong to one call. If the provider
 * gave two calls one id, the later one gets a number (`call_0_2`).
 */
export class UniqueCallIds {
  readonly #used = new Set<string>();

  /** Returns a stream event of a new message, with another id if its own was used before. */
  rename(event: JsonObject): JsonObject {
    const given = callIdOf(event);
    if (given === undefined) return event;
    let id = given;
    for (let times = 2; this.#used.has(id); times++) id = `${given}_${times}`;
    this.#used.add(id);
    return id === given
      ? event
      : { ...event, content_block: { ...asObject(event['content_block']), id } };
  }

  /** Takes a stream event of a message from the log, which has its own ids. */
  keep(event: JsonObject): JsonObject {
    const id = callIdOf(event);
    if (id !== undefined) this.#used.add(id);
    return event;
  }
}

function callIdOf(event: JsonObject): string | undefined {
  if (event['type'] !== 'content_block_start') return undefined;
  const block = asObject(event['content_block']);
  return block['type'] === 'tool_use' ? asString(block['id']) : undefined;
}
