import { DuolaneError } from '../../errors.ts';
import { foldStored } from '../store/fold-stored.ts';
import type { SqlRow, PgStatement } from './connections.ts';
import { heapShare, snapshotChars } from '../text-budget.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import { steadyNow } from '../steady-clock.ts';
import type { TaskHead } from '../store/storage-engine.ts';

/** A head as it was when its row had this `rev`. */
export interface PgHead extends TaskHead {
  readonly rev: number;
  /** Of the snapshot that is stored, and of the entries that came after it. */
  readonly savedBytes: number;
  readonly restBytes: number;
}

export type RunStatement = (
  statement: PgStatement,
  values: readonly unknown[],
) => Promise<SqlRow[]>;

const HOT_TASKS = 2000;

/**
 * Tasks as they were last seen here. Only ever a guess: another replica may have written since, so
 * whoever decides by one either compares its `rev` in the commit or asks for a fresh one.
 */
export class HeadCache {
  readonly #load: PgStatement;
  // Bounded by its text too; a task beyond is read from the database again.
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

  /** As they are now; what is known already is not sent again. Tasks that are not there are left out. */
  async fresh(tasks: readonly string[], ask: RunStatement): Promise<Map<string, PgHead>> {
    const known = tasks.map((task) => this.#hot.peek(task));
    const rows = await ask(this.#load, [tasks, known.map((head) => head?.rev ?? 0)]);
    const byTask = new Map(rows.map((row) => [String(row['id']), row]));
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

  /** A heartbeat went from this `rev` to the next and changed nothing else that is kept here. */
  renewed(task: string, rev: number, leaseMs: number): void {
    const head = this.#hot.peek(task);
    if (head?.rev === rev - 1)
      this.#hot.set(task, { ...head, rev, leaseUntil: steadyNow() + leaseMs });
  }
}

/** A row of the statement `load` or `claim`; without a snapshot in it, nothing has changed since `known`. */
export function headOf(row: SqlRow, known?: PgHead): PgHead {
  const leaseMs = Number(row['lease_ms'] ?? 0);
  const worker = row['worker'];
  const head = {
    task: String(row['id']),
    rev: Number(row['rev']),
    epoch: Number(row['epoch']),
    worker: typeof worker === 'string' ? worker : undefined,
    leaseUntil: leaseMs > 0 ? steadyNow() + leaseMs : 0,
  };
  const line = row['line'];
  if (typeof line !== 'string') {
    if (known?.rev !== head.rev)
      throw new DuolaneError(
        'malformed',
        `task ${head.task} has no snapshot; the store is damaged`,
      );
    const { snapshot, savedBytes, restBytes } = known;
    return { ...head, snapshot, savedBytes, restBytes };
  }
  const rest = row['rest'] as readonly string[];
  const snapshot = foldStored(line, rest);
  const restBytes = rest.reduce((bytes, entry) => bytes + entry.length, 0);
  return { ...head, snapshot, savedBytes: line.length, restBytes };
}
