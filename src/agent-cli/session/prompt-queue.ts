import type { Block } from '../models/types.ts';

export type Priority = 'now' | 'next' | 'later';

/** A user message of the host. */
export interface Prompt {
  readonly uuid: string | undefined;
  readonly content: string | readonly Block[];
  readonly priority: Priority;
  /** False: the message is added to the history without a model call. */
  readonly query: boolean;
}

const RANK: Readonly<Record<Priority, number>> = { now: 0, next: 1, later: 2 };

/**
 * The queued prompts in the order in which they will run: by priority, then by arrival. Prompts of
 * the same priority become one turn; a prompt without a model call gets its own turn.
 */
export class PromptQueue {
  #waiting: Prompt[] = [];

  get size(): number {
    return this.#waiting.length;
  }
  /** The ids of the prompts that have one, in order. */
  get uuids(): string[] {
    return idsOf(this.#waiting);
  }

  add(prompt: Prompt): void {
    const at = this.#waiting.findIndex(({ priority }) => RANK[priority] > RANK[prompt.priority]);
    this.#waiting.splice(at === -1 ? this.#waiting.length : at, 0, prompt);
  }

  /** Removes and returns the prompts of the next turn; empty if the queue is empty. */
  take(): Prompt[] {
    const [first] = this.#waiting;
    if (!first) return [];
    const other = ({ query, priority }: Prompt): boolean => !query || priority !== first.priority;
    const end = first.query ? this.#waiting.findIndex(other) : 1;
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  /** Removes and returns the prompts that join the running turn: all except those for `later`. */
  takeForRunning(): Prompt[] {
    const joins = ({ query, priority }: Prompt): boolean => query && priority !== 'later';
    const taken = this.#waiting.filter(joins);
    this.#waiting = this.#waiting.filter((prompt) => !joins(prompt));
    return taken;
  }

  /** Removes a prompt. Returns false if it is not in the queue. */
  cancel(uuid: string): boolean {
    const at = this.#waiting.findIndex((prompt) => prompt.uuid === uuid);
    if (at !== -1) this.#waiting.splice(at, 1);
    return at !== -1;
  }

  /** Empties the queue and returns its prompts. */
  cancelAll(): Prompt[] {
    return this.#waiting.splice(0);
  }
}

export const idsOf = (prompts: readonly Prompt[]): string[] =>
  prompts.map(({ uuid }) => uuid).filter((uuid) => uuid !== undefined);
