import type { JsonObject } from '../../json.ts';
import { asNumber, asObject, asString } from '../../json.ts';
import type { Pending } from '../shared/approval.ts';
import { parsed } from '../shared/tool-failure.ts';

/** A tool call of the model. */
export type WantedCall = Pending;

/**
 * Builds a message of the Messages API from its stream events, as the next request must repeat it.
 */
export class StreamedMessage {
  readonly #blocks = new Map<number, { block: JsonObject; json: string }>();
  /** The `stop_reason` of the API; undefined while the message is incomplete. */
  stopReason: string | undefined;

  take(event: JsonObject): void {
    const index = asNumber(event['index']) ?? 0;
    switch (event['type']) {
      case 'content_block_start':
        this.#blocks.set(index, { block: asObject(event['content_block']), json: '' });
        return;
      case 'content_block_delta':
        this.#extend(index, asObject(event['delta']));
        return;
      case 'message_delta':
        this.stopReason = asString(asObject(event['delta'])['stop_reason']);
        return;
      default:
        return;
    }
  }

  /**
   * The blocks of the message. If the provider gave two calls one id, the later one gets its own
   * (`call_0_2`): an approval and a result belong to one call.
   */
  get content(): readonly JsonObject[] {
    const uses = new Map<string, number>();
    return [...this.#blocks.values()].map(({ block, json }) => {
      const complete = json === '' ? block : { ...block, input: parsed(json) };
      if (block['type'] !== 'tool_use') return complete;
      const id = asString(block['id']);
      const count = (uses.get(id) ?? 0) + 1;
      uses.set(id, count);
      return count === 1 ? complete : { ...complete, id: `${id}_${count}` };
    });
  }

  get calls(): readonly WantedCall[] {
    return this.content
      .filter(({ type }) => type === 'tool_use')
      .map(({ id, name, input }) => ({ callId: asString(id), name: asString(name), args: input }));
  }

  get text(): string {
    return this.content
      .filter(({ type }) => type === 'text')
      .map((block) => asString(block['text']))
      .join('');
  }

  #extend(index: number, delta: JsonObject): void {
    const known = this.#blocks.get(index);
    if (!known) return;
    known.json += asString(delta['partial_json']);
    for (const field of ['text', 'thinking', 'signature'])
      if (typeof delta[field] === 'string')
        known.block = { ...known.block, [field]: asString(known.block[field]) + delta[field] };
  }
}
