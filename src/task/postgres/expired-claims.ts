import { decodeSuspects, type SuspectRow } from './row-decoders.ts';
import type { SqlRow } from './connections.ts';

/**
 * An expired claim. By the steady clock of this process, its holder counts as gone from `deadAt`.
 */
interface Suspect extends SuspectRow {
  readonly deadAt: number;
}

const MAX_SUSPECTS = 1000;

/**
 * Claims whose lease has ended by the clock of the database, which may have been set. A claim
 * counts as dead when this process has seen it unchanged for half of its lease: a live holder
 * renews it meanwhile, which changes it. Epochs fence a holder that was only slow.
 */
export class Suspects {
  #suspects = new Map<string, Suspect>();
  #nextMs: number | undefined;
  #seenAt = -Infinity;
  /** When the next suspended task must go on; steady clock. */
  #dueAt = Infinity;
  readonly #ignored = new Set<string>();

  /** Whether the database was read less than so long ago. */
  isFresh(ms: number, now: number): boolean {
    return now - this.#seenAt < ms;
  }

  /** Takes the row of `suspects`. `leaseMs`: for claims of replicas that do not store theirs. */
  see(row: SqlRow | undefined, leaseMs: number, now: number): void {
    const { suspects, nextMs, dueMs = Infinity } = decodeSuspects(row);
    this.#nextMs = nextMs;
    this.#dueAt = now + dueMs;
    this.#seenAt = now;
    const before = this.#suspects;
    this.#suspects = new Map();
    for (const suspect of suspects) {
      const { task, epoch, leaseUntil } = suspect;
      const known = before.get(task);
      const isSame = known?.epoch === epoch && known.leaseUntil === leaseUntil;
      const deadAt = isSame ? known.deadAt : now + Math.ceil((suspect.leaseMs || leaseMs) / 2);
      if (this.#suspects.size < MAX_SUSPECTS && !this.#ignored.has(task))
        this.#suspects.set(task, { ...suspect, deadAt });
    }
  }

  /**
   * Ignores a task that cannot be read: until the store is closed, its claim is never dead here.
   */
  ignore(task: string): void {
    this.#ignored.add(task);
    this.#suspects.delete(task);
  }

  dead(now: number): readonly Suspect[] {
    return [...this.#suspects.values()].filter(({ deadAt }) => deadAt <= now);
  }

  /** Whether a suspended task must go on now. Says so once for each time the database was read. */
  takeDue(now: number): boolean {
    const isDue = this.#dueAt <= now;
    if (isDue) this.#dueAt = Infinity;
    return isDue;
  }

  /**
   * Returns after how long another claim may be dead, or a suspended task is due; undefined without
   * either.
   */
  nextMs(now: number): number | undefined {
    const times = [...this.#suspects.values()].map(({ deadAt }) => deadAt - now);
    if (this.#dueAt < Infinity) times.push(this.#dueAt - now);
    if (this.#nextMs !== undefined) times.push(this.#seenAt + this.#nextMs - now);
    return times.length === 0 ? undefined : Math.max(1, Math.min(...times));
  }
}
