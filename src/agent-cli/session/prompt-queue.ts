import type { Block } from '../models/types.ts';

export type Priority = 'now' | 'next' | 'later';

/** A message of the host that waits for its turn. */
export interface Prompt {
  readonly uuid: string | undefined;
  readonly content: string | readonly Block[];
  readonly priority: Priority;
  /** False: into the history without asking the model. */
  readonly query: boolean;
}

const RANK: Readonly<Record<Priority, number>> = { now: 0, next: 1, later: 2 };

/**
 * Prompts in the order in which they will run: by priority, then as they came. What waits together
 * with one priority becomes one turn; a prompt that asks nothing of the model stays alone.
 */
export class PromptQueue {
  #waiting: Prompt[] = [];

  get size(): number {
    return this.#waiting.length;
  }
  /** The ids of those that have one, in order. */
  get uuids(): string[] {
    return idsOf(this.#waiting);
  }

  add(prompt: Prompt): void {
    const at = this.#waiting.findIndex(({ priority }) => RANK[priority] > RANK[prompt.priority]);
    this.#waiting.splice(at === -1 ? this.#waiting.length : at, 0, prompt);
  }

  /** The prompts of the next turn; empty when none waits. */
  take(): Prompt[] {
    const [first] = this.#waiting;
    if (!first) return [];
    const other = ({ query, priority }: Prompt): boolean => !query || priority !== first.priority;
    const end = first.query ? this.#waiting.findIndex(other) : 1;
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  /** What joins the running turn at its next model call: everything that did not ask to be `later`. */
  takeForRunning(): Prompt[] {
    const joins = ({ query, priority }: Prompt): boolean => query && priority !== 'later';
    const taken = this.#waiting.filter(joins);
    this.#waiting = this.#waiting.filter((prompt) => !joins(prompt));
    return taken;
  }

  /** False when it does not wait (any more). */
  cancel(uuid: string): boolean {
    const at = this.#waiting.findIndex((prompt) => prompt.uuid === uuid);
    if (at !== -1) this.#waiting.splice(at, 1);
    return at !== -1;
  }

  /** Empties the queue and says what was in it. */
  cancelAll(): Prompt[] {
    return this.#waiting.splice(0);
  }
}

export const idsOf = (prompts: readonly Prompt[]): string[] =>
  prompts.map(({ uuid }) => uuid).filter((uuid) => uuid !== undefined);
