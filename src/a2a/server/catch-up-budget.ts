import { whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { heapShare } from '../../task/text-budget.ts';

/** A shorter task is not counted: a thousand of them fit into the memory. */
const UNCOUNTED_CHARS = 32 * 1024;

/**
 * Limits the memory of streams that read a task from its beginning. Each of them builds the
 * complete task before it sends it, so a thousand streams that begin together would have it a
 * thousand times. Beyond the limit a stream waits until others have sent theirs.
 */
export class CatchUpBudget {
  readonly #max: number;
  /** The streams that wait. The one of the shortest task is next. */
  readonly #waiting = new Set<CatchUp>();
  #chars = 0;

  constructor(max: number = heapShare() / 2) {
    this.#max = max;
  }

  /**
   * Waits until there is memory for a task of so many characters, and resolves with a function that
   * frees it, which may be called twice. An abort frees it as well, and ends the wait: the first
   * read of the stream then throws.
   */
  async take(chars: number, options: Abortable): Promise<() => void> {
    if (chars <= UNCOUNTED_CHARS) return () => {};
    const catchUp: CatchUp = { chars, isTaken: false, go: () => {} };
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
    if (catchUp.isTaken) this.#chars -= catchUp.chars;
    catchUp.isTaken = false;
    this.#next();
  }

  #next(): void {
    for (let next = this.#shortest(); next; next = this.#shortest()) {
      // One task is always allowed, however long it is.
      if (this.#chars > 0 && this.#chars + next.chars > this.#max) return;
      this.#waiting.delete(next);
      this.#chars += next.chars;
      next.isTaken = true;
      next.go();
    }
  }

  /** A caller with many streams of a long task must not delay the others for long. */
  #shortest(): CatchUp | undefined {
    let shortest: CatchUp | undefined;
    for (const each of this.#waiting) if (!shortest || each.chars < shortest.chars) shortest = each;
    return shortest;
  }
}

interface CatchUp {
  readonly chars: number;
  isTaken: boolean;
  go: () => void;
}
