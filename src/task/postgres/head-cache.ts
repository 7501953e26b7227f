import { DuolaneError } from '../../errors.ts';
import { foldStored } from '../store/fold-stored.ts';
import { decodeHeadRow, type HeadRow } from './row-decoders.ts';
import type { SqlRow, PgStatement } from './connections.ts';
import { heapShare, snapshotChars } from '../text-budget.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { steadyNow } from '../steady-clock.ts';
import type { TaskHead } from '../store/storage-engine.ts';

/** A task head as it was when its row had this revision. */
export interface PgHead extends TaskHead {
  readonly rev: number;
  /** The size of the stored snapshot, and of the entries after it. */
  readonly savedBytes: number;
  readonly restBytes: number;
}

export type RunStatement = (
  statement: PgStatement,
  values: readonly unknown[],
) => Promise<SqlRow[]>;

const HOT_TASKS = 2000;

/**
 * Tasks as they were last seen here. Another replica may have written since, so a caller that
 * decides by a guess compares its `rev` in the commit, or reads a fresh head.
 */
export class HeadCache {
  readonly #load: PgStatement;
  // Limited by text too. A task beyond the limit is read from the database again.
  readonly #hot = new LruCache<string, PgHead>(HOT_TASKS, {
    maxWeight: heapShare(),
    weigh: ({ snapshot }) => snapshotChars(snapshot),
  });

  constructor(load: PgStatement) {
    this.#load = load;
  }

  guess(task: string): PgHead | undefined {
    return this.#hot.get(task);
  }

  /** Reads the heads as they are now, without the snapshots that are known. Omits missing tasks. */
  async fresh(tasks: readonly string[], ask: RunStatement): Promise<Map<string, PgHead>> {
    const known = tasks.map((task) => this.#hot.peek(task));
    const rows = await ask(this.#load, [tasks, known.map((head) => head?.rev ?? 0)]);
    const byTask = new Map(rows.map(decodeHeadRow).map((row) => [row.task, row]));
    const found = new Map<string, PgHead>();
    for (const [index, task] of tasks.entries()) {
      const row = byTask.get(task);
      if (row) found.set(task, headOf(row, known[index]));
    }
    return found;
  }

  keep(task: string, head: PgHead | undefined): void {
    if (head) this.#hot.set(task, head);
    else this.#hot.delete(task);
  }

  forget(task: string): void {
    this.#hot.delete(task);
  }

  /** Takes a heartbeat, which went from this revision to the next and changed only the lease. */
  renewed(task: string, rev: number, leaseMs: number): void {
    const head = this.#hot.peek(task);
    if (head?.rev === rev - 1)
      this.#hot.set(task, { ...head, rev, leaseUntil: steadyNow() + leaseMs });
  }
}

/** Folds the head of a row. Without a snapshot in it, nothing has changed since `known`. */
export function headOf(
  { task, rev, epoch, worker, leaseMs, line, rest }: HeadRow,
  known?: PgHead,
): PgHead {
  const leaseUntil = leaseMs > 0 ? steadyNow() + leaseMs : 0;
  const head = { task, rev, epoch, worker, leaseUntil };
  if (line === undefined) {
    if (known?.rev !== rev)
      throw new DuolaneError('malformed', `task "${task}" has no snapshot; the store is damaged`);
    const { snapshot, savedBytes, restBytes } = known;
    return { ...head, snapshot, savedBytes, restBytes };
  }
  const snapshot = foldStored(line, rest);
  const restBytes = rest.reduce((bytes, entry) => bytes + entry.length, 0);
  return { ...head, snapshot, savedBytes: line.length, restBytes };
}
