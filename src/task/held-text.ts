import { getHeapStatistics } from 'node:v8';
import { DuolaneError } from '../errors.ts';
import type { AgentEvent, Part, Snapshot } from '../event/types.ts';

/** A sixteenth of what this process or thread may have on its heap: a text is held several times. */
export const heapShare = (): number => Math.floor(getHeapStatistics().heap_size_limit / 16);

/** How much an event adds to what is held of its run, in characters. */
export function heldBy(event: AgentEvent): number {
  switch (event.type) {
    case 'text.delta':
    case 'reasoning.delta':
      return event.delta.length;
    case 'artifact':
      return charsOf(event.parts);
    default:
      return 0;
  }
}

/** Roughly what a snapshot takes, in characters. */
export function snapshotChars({ text, artifacts, turns, said = [] }: Snapshot): number {
  let chars = 1024 + text.length;
  for (const { parts } of artifacts) chars += charsOf(parts);
  for (const { parts } of turns) chars += charsOf(parts);
  for (const each of said) chars += each.text.length;
  return chars;
}

// Data has no length of its own, and an entry has its limit.
function charsOf(parts: readonly Part[]): number {
  let chars = 0;
  for (const part of parts)
    if ('text' in part) chars += part.text.length;
    else chars += 'bytes' in part ? part.bytes.length : 1024;
  return chars;
}

/** Limits the text and artifacts that the runs of a runner hold. */
export class HeldText {
  readonly #maxRun: number;
  readonly #maxAll: number;
  #all = 0;

  constructor(maxRun: number, maxAll: number) {
    this.#maxRun = maxRun;
    this.#maxAll = maxAll;
  }

  /** Whether another run may begin: half is left for those that are under way. */
  get hasRoom(): boolean {
    return this.#all < this.#maxAll / 2;
  }

  /** What one run holds; `free` when it is over. */
  start(): {
    readonly add: (chars: number) => DuolaneError | undefined;
    readonly free: () => void;
  } {
    let own = 0;
    let isEnding = false;
    const free = (): void => {
      this.#all -= own;
      own = 0;
    };
    return {
      add: (chars) => {
        if (isEnding) return undefined;
        own += chars;
        this.#all += chars;
        if (own > this.#maxRun)
          return new DuolaneError(
            'too_large',
            `text and artifacts of the run exceed maxRunChars (${this.#maxRun}): ${own}; put large results behind a URL`,
          );
        if (this.#all <= this.#maxAll || chars === 0) return undefined;
        const message = `text and artifacts of all runs here exceed maxHeldChars (${this.#maxAll}): ${this.#all}; try again later, or give the process more memory`;
        // It ends now, so what it holds no longer counts: otherwise every run would fail with it.
        free();
        isEnding = true;
        return new DuolaneError('overloaded', message);
      },
      free,
    };
  }
}
