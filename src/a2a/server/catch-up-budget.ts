import { whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { heapShare } from '../../task/text-budget.ts';

/** A shorter task is not counted: a thousand of them fit into the memory. */
const UNCOUNTED_CHARS = 32 * 1024;

/**
 * Limits the memory of streams that read a task from its beginning. Each of them builds the
 * complete task before it sends it, so a thousand streams that begin together would have it a
 * thousand times. Beyond the limit a stream waits until others have sent theirs. One owner has at
 * most half of it, so that its streams, which may read slowly, cannot stop those of others.
 */
export class CatchUpBudget {
  readonly #max: number;
  /** The streams that wait. The one of the shortest task is next. */
  readonly #waiting = new Set<CatchUp>();
  readonly #owners = new Map<string, number>();
  #chars = 0;

  constructor(max: number = heapShare() / 2) {
    this.#max = max;
  }

  /**
   * Waits until there is memory for a task of so many characters, and resolves with a function that
   * frees it, which may be called twice. An abort frees it as well, and ends the wait: the first
   * read of the stream then throws.
   */
  async take(chars: number, owner = '', options: Abortable): Promise<() => void> {
    if (chars <= UNCOUNTED_CHARS) return () => {};
    const catchUp: CatchUp = { chars, owner, isTaken: false, go: () => {} };
    const turn = new Promise<void>((resolve) => (catchUp.go = resolve));
    this.#waiting.add(catchUp);
    const unlisten = whenAborted(options, () => this.#free(catchUp));
    this.#next();
    await turn;
    return () => {
      unlisten();
      this.#free(catchUp);
    };
  }

  #free(catchUp: CatchUp): void {
    if (this.#waiting.delete(catchUp)) catchUp.go();
    if (catchUp.isTaken) this.#count(catchUp.owner, -catchUp.chars);
    catchUp.isTaken = false;
    this.#next();
  }

  #next(): void {
    for (let next = this.#shortest(); next; next = this.#shortest()) {
      this.#waiting.delete(next);
      this.#count(next.owner, next.chars);
      next.isTaken = true;
      next.go();
    }
  }

  /**
   * The shortest task that there is memory for. A caller with many streams of a long task must not
   * delay the others for long.
   */
  #shortest(): CatchUp | undefined {
    let shortest: CatchUp | undefined;
    for (const each of this.#waiting)
      if ((!shortest || each.chars < shortest.chars) && this.#fits(each)) shortest = each;
    return shortest;
  }

  // One task is always allowed, however long it is, and one of each owner in half of the memory.
  #fits({ owner, chars }: CatchUp): boolean {
    if (this.#chars === 0) return true;
    const own = this.#owners.get(owner) ?? 0;
    return this.#chars + chars <= this.#max && (own === 0 || own + chars <= this.#max / 2);
  }

  #count(owner: string, chars: number): void {
    this.#chars += chars;
    const own = (this.#owners.get(owner) ?? 0) + chars;
    if (own > 0) this.#owners.set(owner, own);
    else this.#owners.delete(owner);
  }
}

interface CatchUp {
  readonly chars: number;
  readonly owner: string;
  isTaken: boolean;
  go: () => void;
}
