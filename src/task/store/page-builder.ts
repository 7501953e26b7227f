import { DuolaneError } from '../../errors.ts';
import type { Snapshot } from '../../event/types.ts';
import { snapshotChars } from '../text-budget.ts';
import type { DamagedTask, StorePage, ListPosition } from './store.ts';

/**
 * Builds a list page. A task that cannot be read is reported in it and does not hide the others.
 */
export class PageBuilder {
  readonly #snapshots: Snapshot[] = [];
  readonly #places: ListPosition[] = [];
  readonly #damaged: DamagedTask[] = [];
  readonly #maxChars: number;
  #chars = 0;
  #last: ListPosition | undefined;
  #endsEarly = false;
  #gone = 0;

  constructor(maxChars: number = Infinity) {
    this.#maxChars = maxChars;
  }

  /** Adds a task. Returns false if the page is long enough and takes no more. */
  add(task: string, place: ListPosition, read: () => Snapshot | undefined): boolean {
    if (this.#chars >= this.#maxChars) {
      this.#endsEarly = true;
      return false;
    }
    this.#last = place;
    try {
      const snapshot = read();
      // The task was pruned after it was listed.
      if (!snapshot) {
        this.#gone++;
        return true;
      }
      this.#chars += snapshotChars(snapshot);
      this.#snapshots.push(snapshot);
      this.#places.push(place);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#damaged.push({ task, reason: String(error) });
    }
    return true;
  }

  get page(): StorePage {
    return {
      snapshots: this.#snapshots,
      places: this.#places,
      ...(this.#damaged.length > 0 && { damaged: this.#damaged }),
      ...(this.#gone > 0 && { gone: this.#gone }),
      ...((this.#damaged.length + this.#gone > 0 || this.#endsEarly) &&
        this.#last && { last: this.#last }),
      ...(this.#endsEarly && { endsEarly: true }),
    };
  }
}

/** Whether the error is of damaged stored data; any other error is of the database. */
export const isDamage = (error: unknown): boolean =>
  error instanceof DuolaneError ? DAMAGE.has(error.code) : /malformed|corrupt/i.test(String(error));

const DAMAGE: ReadonlySet<string> = new Set(['malformed', 'unsupported', 'invalid', 'closed']);
