import { randomUUID } from 'node:crypto';
import { type Block, blocksOf, type ChatMessage } from '../models/types.ts';
import { asString } from '../../json.ts';
import { STRUCTURED_OUTPUT } from '../tools/structured-output.ts';

interface ModelTurn {
  readonly id: string;
  readonly blocks: Block[];
  readonly results: Map<string, Block>;
  /** What the tool for structured output has accepted. */
  output?: { readonly value: unknown };
}
/** `isPrompt`: a person has written some of it. */
type Item = { readonly user: Block[]; isPrompt: boolean } | ModelTurn;

/** The model messages of the last turn, from which it can be continued. */
export interface UnfinishedTurn {
  readonly steps: readonly Readonly<ModelTurn>[];
  /** Nothing follows the last of them but the results of its calls. */
  readonly endsWithStep: boolean;
}

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

  /** Adds a user message; with `isMeta` one that the CLI wrote itself. */
  addUser(
    content: string | readonly Block[],
    { isMeta = false }: { readonly isMeta?: boolean } = {},
  ): void {
    const last = this.#items.at(-1);
    if (last && !isStep(last)) {
      last.user.push(...blocksOf(content));
      last.isPrompt ||= !isMeta;
    } else this.#items.push({ user: [...blocksOf(content)], isPrompt: !isMeta });
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

  /**
   * Adds a `tool_result` block. Returns false if no open call has its id. `output` is what the tool
   * for structured output has accepted, if a hook has changed it.
   */
  addResult(result: Block, output?: { readonly value: unknown }): boolean {
    const id = asString(result['tool_use_id']);
    const step = this.#items.findLast(
      (item): item is ModelTurn =>
        isStep(item) && item.blocks.some((block) => isCall(block) && block['id'] === id),
    );
    if (!step || step.results.has(id)) return false;
    step.results.set(id, result);
    const call = step.blocks.find((block) => block['id'] === id);
    if (call?.['name'] === STRUCTURED_OUTPUT && result['is_error'] !== true)
      step.output ??= output ?? { value: call['input'] };
    return true;
  }

  /**
   * Whether the last turn has not ended. It has if its last model message has no calls, or has
   * given the structured output. With `needsOutput` only the latter counts.
   */
  isInterrupted({ needsOutput }: { readonly needsOutput: boolean }): boolean {
    const last = this.#items.at(-1);
    if (last === undefined) return false;
    const { steps, endsWithStep } = this.unfinishedTurn();
    if (steps.at(-1)?.output) return this.openCalls().length > 0;
    return needsOutput || !endsWithStep || (isStep(last) && last.blocks.some(isCall));
  }

  /** What the model has done since the last prompt. */
  unfinishedTurn(): UnfinishedTurn {
    const from = this.#items.findLastIndex((item) => !isStep(item) && item.isPrompt) + 1;
    const last = this.#items.at(-1);
    return {
      steps: this.#items.slice(from).filter(isStep),
      endsWithStep: last !== undefined && isStep(last),
    };
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
