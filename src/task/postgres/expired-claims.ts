import type { SqlRow } from './connections.ts';

/** A claim that was seen with this lease, by the steady clock of this process. */
interface Suspect {
  readonly task: string;
  readonly epoch: number;
  readonly leaseUntil: number;
  readonly deadAt: number;
}

const MAX_SUSPECTS = 1000;

/**
 * Claims whose lease has ended by the clock of the database, which may have been set. One counts as
 * dead when this process has seen it unchanged for half of its lease: an owner that lives renews it
 * meanwhile, and changes it. Epochs fence an owner that was only slow.
 */
export class Suspects {
  #suspects = new Map<string, Suspect>();
  #nextMs: number | undefined;
  #seenAt = -Infinity;
  readonly #ignored = new Set<string>();

  /** Whether the database was asked less than so long ago. */
  isFresh(ms: number, now: number): boolean {
    return now - this.#seenAt < ms;
  }

  /** The answer to the statement `suspects`. `leaseMs`: for claims of replicas that do not store theirs. */
  see(row: SqlRow | undefined, leaseMs: number, now: number): void {
    const next = row?.['next_ms'];
    this.#nextMs = next == null ? undefined : Number(next);
    this.#seenAt = now;
    const before = this.#suspects;
    this.#suspects = new Map();
    for (const text of (row?.['suspects'] as readonly string[] | undefined) ?? []) {
      const [task, epoch, leaseUntil, ownMs] = JSON.parse(text) as [string, number, number, number];
      const known = before.get(task);
      const isSame = known?.epoch === epoch && known.leaseUntil === leaseUntil;
      const deadAt = isSame ? known.deadAt : now + Math.ceil((ownMs || leaseMs) / 2);
      if (this.#suspects.size < MAX_SUSPECTS && !this.#ignored.has(task))
        this.#suspects.set(task, { task, epoch, leaseUntil, deadAt });
    }
  }

  /** The task cannot be read: as long as the store is open, its claim is never dead here. */
  ignore(task: string): void {
    this.#ignored.add(task);
    this.#suspects.delete(task);
  }

  dead(now: number): readonly Suspect[] {
    return [...this.#suspects.values()].filter(({ deadAt }) => deadAt <= now);
  }

  /** How long until a claim may be dead that is not yet; undefined without claims. */
  nextMs(now: number): number | undefined {
    const times = [...this.#suspects.values()].map(({ deadAt }) => deadAt - now);
    if (this.#nextMs !== undefined) times.push(this.#seenAt + this.#nextMs - now);
    return times.length === 0 ? undefined : Math.max(1, Math.min(...times));
  }
}
