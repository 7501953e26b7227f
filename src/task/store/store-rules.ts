import { isFinal } from '../../event/fold/entry-rules.ts';
import type { Seq, Snapshot } from '../../event/types.ts';
import { compactableIn } from './compaction.ts';
import type { DamagedTask, ReadResult, EntryRow, StoreMethods } from './store.ts';
import type { TaskFilter } from '../types.ts';
import { isDamage } from './page-builder.ts';
import type { TaskHead, StorageEngine } from './storage-engine.ts';
import { CHUNK_BYTES, claimRow, lostClaim, type RuleClocks, TaskRules } from './task-rules.ts';

export const CHUNK_ROWS = 256;
export const PRUNE_TASKS = 20;

/**
 * The rules of a store, once for every storage engine that can run them inside a transaction: the
 * rules for writing a task, and how tasks are claimed, read, listed and pruned.
 */
export class StoreRules extends TaskRules implements StoreMethods {
  readonly #engine: StorageEngine;

  constructor(engine: StorageEngine, clocks: RuleClocks = {}) {
    super(engine, clocks);
    this.#engine = engine;
  }

  claim(
    worker: string,
    agents: readonly string[],
    leaseMs: number,
    except: readonly string[] = [],
  ): ReturnType<StoreMethods['claim']> {
    const now = this.steadyNow();
    const damaged: DamagedTask[] = [];
    for (;;) {
      const task = this.#engine.claimable(agents, now, except);
      if (task === undefined) {
        const lease = this.#engine.nextLease(agents);
        return {
          ...(lease !== undefined && { retryInMs: Math.max(1, lease - now) }),
          ...(damaged.length > 0 && { damaged }),
        };
      }
      const head = this.#readable(task, damaged);
      if (!head) continue;
      const next = this.claimed(head, worker, leaseMs);
      this.write(head, next, []);
      return { claim: claimRow(next), ...(damaged.length > 0 && { damaged }) };
    }
  }

  /** Loads a task. One damaged task must not keep all others from being claimed. */
  #readable(task: string, damaged: DamagedTask[]): TaskHead | undefined {
    try {
      return this.find(task);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#engine.setAside(task);
      damaged.push({ task, reason: String(error) });
      return undefined;
    }
  }

  /** Loads a task for a request about many tasks: one that cannot be read counts as gone. */
  #loadIntact(task: string): TaskHead | undefined {
    try {
      return this.#engine.load(task);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return undefined;
    }
  }

  beat(
    claims: readonly { readonly task: string; readonly epoch: number }[],
    leaseMs: number,
  ): ReturnType<StoreMethods['beat']> {
    const leaseUntil = this.steadyNow() + leaseMs;
    return claims.map(({ task, epoch }) => {
      const head = this.#loadIntact(task);
      if (!head) return { task, claim: 'lost', head: 0 };
      const { seq } = head.snapshot;
      if (head.epoch !== epoch) return { task, claim: 'lost', head: seq };
      if (head.worker === undefined) return { task, claim: 'over', head: seq };
      this.#engine.write(head, { ...head, leaseUntil }, []);
      return { task, claim: 'held', head: seq };
    });
  }

  read(task: string, after: Seq, maxBytes: number = CHUNK_BYTES): ReadResult | undefined {
    const head = this.#engine.load(task);
    if (!head) return undefined;
    const rows = this.#engine.rows(task, after, CHUNK_ROWS, Math.min(maxBytes, CHUNK_BYTES));
    return { rows, head: head.snapshot.seq, ended: isFinal(head.snapshot.state) };
  }

  heads(tasks: readonly string[]): ReturnType<StoreMethods['heads']> {
    return tasks.flatMap((task) => {
      const head = this.#loadIntact(task);
      if (!head) return [];
      return [{ task, head: head.snapshot.seq, ended: isFinal(head.snapshot.state) }];
    });
  }

  get(task: string): Snapshot | undefined {
    return this.#engine.load(task)?.snapshot;
  }

  page(request: Parameters<StoreMethods['page']>[0]): ReturnType<StoreMethods['page']> {
    return this.#engine.page(request);
  }

  count(filter: TaskFilter): number {
    return this.#engine.count(filter);
  }

  bookmark(mark: Parameters<StoreMethods['bookmark']>[0]): void {
    this.find(mark.task);
    this.#engine.putBookmark(mark);
  }

  bookmarks(
    ...[task, after]: Parameters<StoreMethods['bookmarks']>
  ): ReturnType<StoreMethods['bookmarks']> {
    return this.#engine.bookmarks(task, after, CHUNK_ROWS);
  }

  setValues(...[claim, values]: Parameters<StoreMethods['setValues']>): void {
    const { worker, epoch } = this.find(claim.task);
    if (epoch !== claim.epoch || worker === undefined) throw lostClaim(claim.task);
    this.#engine.setValues(claim.task, values);
  }

  values(
    ...[task, prefix, after = '']: Parameters<StoreMethods['values']>
  ): ReturnType<StoreMethods['values']> {
    return this.#engine.values(task, prefix, after, CHUNK_BYTES);
  }

  ended(before: number): string[] {
    return this.#engine.ended(before, PRUNE_TASKS);
  }

  remove(tasks: readonly string[]): void {
    for (const task of tasks) this.#engine.remove(task);
  }

  compact(before: number): number {
    const tasks = this.#engine.uncompacted(before, PRUNE_TASKS);
    for (const task of tasks) this.#engine.compact(task, compactableIn(this.#everyRow(task)));
    return tasks.length;
  }

  probe(thorough = false): void {
    this.#engine.probe(thorough);
  }

  *#everyRow(task: string): Generator<EntryRow> {
    for (let after = 0; ;) {
      const rows = this.#engine.rows(task, after, CHUNK_ROWS, CHUNK_BYTES);
      yield* rows;
      const last = rows.at(-1);
      if (!last) return;
      after = last.seq;
    }
  }
}
