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

/** What stands for the result of a call that never had one: a model must see an answer to each. */
const MISSING = 'The call was interrupted before a result was received.';

/**
 * What has been said so far. Blocks of one answer and results of its calls may come in any order
 * (a tool may be done before the answer is); `messages()` always puts them in the order that
 * providers demand: the answer, then all results in the order of the calls, then what users said.
 */
export class History {
  readonly #items: Item[] = [];
  readonly #callIds = new Set<string>();

  /**
   * The id under which a call of the model goes: its own, unless another call has it already. Some
   * servers count anew in each answer, or give parallel calls one id; a permission, an answer or a
   * result would then be taken for that of the other call.
   */
  nameCall(given: string): string {
    let id = given || `call_${randomUUID()}`;
    for (let times = 2; this.#callIds.has(id); times += 1) id = `${given}_${times}`;
    this.#callIds.add(id);
    return id;
  }

  addUser(content: string | readonly Block[]): void {
    const last = this.#items.at(-1);
    if (last && !isStep(last)) last.user.push(...blocksOf(content));
    else this.#items.push({ user: [...blocksOf(content)] });
  }

  /** A finished block of the answer `id`. */
  addAnswer(id: string, block: Block): void {
    if (isCall(block)) this.#callIds.add(asString(block['id']));
    const known = this.#items.findLast((item) => isStep(item) && item.id === id);
    if (known && isStep(known)) known.blocks.push(block);
    else this.#items.push({ id, blocks: [block], results: new Map() });
  }

  /** Forgets an answer that was withdrawn. */
  dropAnswer(id: string): void {
    const at = this.#items.findLastIndex((item) => isStep(item) && item.id === id);
    if (at !== -1) this.#items.splice(at, 1);
  }

  /** A `tool_result` block; false when no call waits for it. */
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

  /** Calls of the last answer that have no result yet. */
  openCalls(): readonly Block[] {
    const last = this.#items.findLast(isStep);
    return last
      ? last.blocks.filter((block) => isCall(block) && !last.results.has(asString(block['id'])))
      : [];
  }

  messages(): ChatMessage[] {
    const out: { role: ChatMessage['role']; content: Block[] }[] = [];
    const say = (role: ChatMessage['role'], blocks: readonly Block[]): void => {
      if (blocks.length === 0) return;
      const last = out.at(-1);
      if (last?.role === role) last.content.push(...blocks);
      else out.push({ role, content: [...blocks] });
    };
    for (const item of this.#items) {
      if (isStep(item)) {
        say('assistant', item.blocks);
        say(
          'user',
          item.blocks.filter(isCall).map((call) => resultOf(item, asString(call['id']))),
        );
      } else say('user', item.user);
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
