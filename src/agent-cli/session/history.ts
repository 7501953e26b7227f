import { randomUUID } from 'node:crypto';
import { type Block, blocksOf, type ChatMessage } from '../models/types.ts';
import { asString } from '../../json.ts';

interface ModelTurn {
  readonly id: string;
  readonly blocks: Block[];
  readonly results: Map<string, Block>;
}
type Item = { readonly user: Block[] } | ModelTurn;

const isStep = (item: Item): item is ModelTurn => 'blocks' in item;
const isCall = (block: Block): boolean => block.type === 'tool_use';

/** Characters that common providers do not use in the ids of calls (`functions.Bash:0`). */
const UNUSUAL = /[^\w.:|+=@~-]/g;
const MAX_ID_CHARS = 256;

/** The result of a call without one: providers require a result for each call. */
const MISSING = 'The call was interrupted before a result was received.';

/**
 * The messages that the model gets. Blocks of a model message and results of its calls may arrive
 * in any order (a tool may finish before the message does). `messages()` returns them in the order
 * that providers require: the model message, all results in the order of the calls, then user
 * messages.
 */
export class History {
  readonly #items: Item[] = [];
  readonly #callIds = new Set<string>();

  /**
   * Returns the id of a call: the given one, unless another call has it. Some servers restart their
   * numbers in each message, or give parallel calls the same id. A permission or a result would
   * then be assigned to the wrong call. Unusual characters are replaced: ids become parts of keys
   * and of longer ids, such as `<call>/permission`.
   */
  nameCall(given: string): string {
    const base = given.replace(UNUSUAL, '_').slice(0, MAX_ID_CHARS);
    let id = base || `call_${randomUUID()}`;
    for (let times = 2; this.#callIds.has(id); times += 1) id = `${base}_${times}`;
    this.#callIds.add(id);
    return id;
  }

  /** Returns the id of a model message: the given one, unless an earlier message has it. */
  nameMessage(given: string): string {
    let id = given || `msg_${randomUUID()}`;
    for (let times = 2; this.#hasMessage(id); times += 1) id = `${given}_${times}`;
    return id;
  }

  #hasMessage(id: string): boolean {
    return this.#items.some((item) => isStep(item) && item.id === id);
  }

  addUser(content: string | readonly Block[]): void {
    const last = this.#items.at(-1);
    if (last && !isStep(last)) last.user.push(...blocksOf(content));
    else this.#items.push({ user: [...blocksOf(content)] });
  }

  /** Adds a finished block to the model message `id`. */
  addAnswer(id: string, block: Block): void {
    if (isCall(block)) this.#callIds.add(asString(block['id']));
    const known = this.#items.findLast((item) => isStep(item) && item.id === id);
    if (known && isStep(known)) known.blocks.push(block);
    else this.#items.push({ id, blocks: [block], results: new Map() });
  }

  /** Removes a model message that was withdrawn for a retry. */
  dropAnswer(id: string): void {
    const at = this.#items.findLastIndex((item) => isStep(item) && item.id === id);
    if (at !== -1) this.#items.splice(at, 1);
  }

  /** Adds a `tool_result` block. Returns false if no open call has its id. */
  addResult(result: Block): boolean {
    const id = asString(result['tool_use_id']);
    const step = this.#items.findLast(
      (item): item is ModelTurn =>
        isStep(item) && item.blocks.some((block) => isCall(block) && block['id'] === id),
    );
    if (!step || step.results.has(id)) return false;
    step.results.set(id, result);
    return true;
  }

  /** Whether a model message must follow: the last one has calls, or a person has spoken since. */
  get isInterrupted(): boolean {
    const last = this.#items.at(-1);
    return last !== undefined && (!isStep(last) || last.blocks.some(isCall));
  }

  /** The calls of the last model message without a result. */
  openCalls(): readonly Block[] {
    const last = this.#items.findLast(isStep);
    return last
      ? last.blocks.filter((block) => isCall(block) && !last.results.has(asString(block['id'])))
      : [];
  }

  messages(): ChatMessage[] {
    const out: { role: ChatMessage['role']; content: Block[] }[] = [];
    const add = (role: ChatMessage['role'], blocks: readonly Block[]): void => {
      if (blocks.length === 0) return;
      const last = out.at(-1);
      if (last?.role === role) last.content.push(...blocks);
      else out.push({ role, content: [...blocks] });
    };
    for (const item of this.#items) {
      if (isStep(item)) {
        add('assistant', item.blocks);
        add(
          'user',
          item.blocks.filter(isCall).map((call) => resultOf(item, asString(call['id']))),
        );
      } else add('user', item.user);
    }
    return out;
  }
}

const resultOf = (step: ModelTurn, id: string): Block =>
  step.results.get(id) ?? {
    type: 'tool_result',
    tool_use_id: id,
    is_error: true,
    content: MISSING,
  };
