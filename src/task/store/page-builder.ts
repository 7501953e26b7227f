import { DuolaneError } from '../../errors.ts';
import type { Snapshot } from '../../event/types.ts';
import { snapshotChars } from '../text-budget.ts';
import type { DamagedTask, StorePage, ListPosition } from './store.ts';

/** A page of tasks, without those that are stored and cannot be read: one of them must not hide the rest. */
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

  /** False when it takes no more: what is in it is long enough. */
  add(task: string, place: ListPosition, read: () => Snapshot | undefined): boolean {
    if (this.#chars >= this.#maxChars) {
      this.#endsEarly = true;
      return false;
    }
    this.#last = place;
    try {
      const snapshot = read();
      // Pruned since it was listed.
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

/** Whether stored data cannot be read; any other error is of the database as a whole. */
export const isDamage = (error: unknown): boolean =>
  error instanceof DuolaneError ? DAMAGE.has(error.code) : /malformed|corrupt/i.test(String(error));

const DAMAGE: ReadonlySet<string> = new Set(['malformed', 'unsupported', 'invalid', 'closed']);
