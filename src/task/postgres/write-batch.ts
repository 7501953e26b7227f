import { isFinal } from '../../event/index.ts';
import { dueAt } from '../../event/fold/steps.ts';
import type { Seq } from '../../event/types.ts';
import { isListedChange } from '../store/listed-change.ts';
import { encodeSnapshot } from '../store/line-codec.ts';
import type { PgHead } from './head-cache.ts';
import { outlineOf } from '../store/task-outline.ts';
import { needsRunner, partyOf } from '../store/run-queue.ts';
import { steadyNow } from '../steady-clock.ts';
import type { EntryRow } from '../store/store.ts';
import {
  type TaskHead,
  type TaskStorage,
  type TurnKey,
  turnKeyText,
} from '../store/storage-engine.ts';

/** A turn that the database has already, with its entry. */
export interface KnownTurn {
  readonly task: string;
  readonly row: EntryRow;
}

interface TaskWrite {
  readonly from: PgHead | undefined;
  to: TaskHead;
  readonly rows: EntryRow[];
  readonly turns: { readonly key: TurnKey; readonly seq: Seq }[];
}

const SNAPSHOT_AFTER_BYTES = 64 * 1024;

/**
 * The writes of a group of calls, as a storage for the rules: the heads at the start, and after.
 */
export class WriteBatch implements TaskStorage {
  /** The tasks that the calls since `begin` depend on. */
  consulted: Set<string> = new Set();
  readonly queued: (party: string) => number;
  readonly #heads: ReadonlyMap<string, PgHead>;
  readonly #known: ReadonlyMap<string, KnownTurn>;
  readonly #writes = new Map<string, TaskWrite>();
  readonly #remembered = new Map<string, { readonly task: string; readonly seq: Seq }>();

  constructor(
    heads: ReadonlyMap<string, PgHead>,
    known: ReadonlyMap<string, KnownTurn>,
    queued: (party: string) => number,
  ) {
    this.#heads = heads;
    this.#known = known;
    this.queued = queued;
  }

  get size(): number {
    return this.#writes.size;
  }

  has(task: string): boolean {
    return this.#writes.has(task);
  }

  /** Starts a new call. */
  begin(): void {
    this.consulted = new Set();
  }

  load(task: string): TaskHead | undefined {
    this.consulted.add(task);
    return this.#writes.get(task)?.to ?? this.#heads.get(task);
  }

  write(_from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void {
    const write = this.#writes.get(to.task);
    if (write) {
      write.to = to;
      write.rows.push(...rows);
    } else {
      const from = this.#heads.get(to.task);
      this.#writes.set(to.task, { from, to, rows: [...rows], turns: [] });
    }
  }

  turn(key: TurnKey): { readonly task: string; readonly seq: Seq } | undefined {
    const remembered = this.#remembered.get(turnKeyText(key));
    if (remembered) this.consulted.add(remembered.task);
    const known = this.#known.get(turnKeyText(key));
    return remembered ?? (known && { task: known.task, seq: known.row.seq });
  }

  /** Returns the entry of a turn that `turn` returned; the rules read nothing else. */
  rows(task: string, after: Seq): EntryRow[] {
    const written = this.#writes.get(task)?.rows.find((row) => row.seq === after + 1);
    const known = [...this.#known.values()].find(
      (turn) => turn.task === task && turn.row.seq === after + 1,
    );
    const row = written ?? known?.row;
    return row ? [row] : [];
  }

  rememberTurn(key: TurnKey, task: string, seq: Seq): void {
    this.#remembered.set(turnKeyText(key), { task, seq });
    this.#writes.get(task)?.turns.push({ key, seq });
  }

  /** Returns the values of the statement `write`, and what each task is afterwards. */
  prepare(channel: string, sender: string): PreparedWrite {
    const tasks: unknown[][] = Array.from({ length: 16 }, () => []);
    const entries: unknown[][] = Array.from({ length: 4 }, () => []);
    const turns: unknown[][] = Array.from({ length: 5 }, () => []);
    const outlines: (string | null)[] = [];
    const dueTimes: (number | null)[] = [];
    const heads: PgHead[] = [];
    for (const write of this.#writes.values()) {
      const { from, rows } = write;
      const n = heads.length + 1;
      const snapshot = snapshotToSave(write);
      heads.push(headAfter(write, snapshot));
      push(tasks, taskValues(from, write.to, snapshot));
      outlines.push(snapshot === undefined ? null : encodeSnapshot(outlineOf(write.to.snapshot)));
      dueTimes.push(dueAt(write.to.snapshot) ?? null);
      for (const { seq, note, line } of rows) push(entries, [n, seq, note, line]);
      for (const { key, seq } of write.turns)
        push(turns, [n, key.owner, key.agent, key.messageId, seq]);
    }
    const values = [channel, sender, ...tasks, ...entries, ...turns, outlines, dueTimes];
    return { values, heads };
  }
}

export interface PreparedWrite {
  readonly values: readonly unknown[];
  /** What each written task is afterwards. The statement numbers them from 1. */
  readonly heads: readonly PgHead[];
}

function push(columns: unknown[][], values: readonly unknown[]): void {
  for (const [index, value] of values.entries()) columns[index]?.push(value);
}

const sizeOf = (rows: readonly EntryRow[]): number =>
  rows.reduce((bytes, row) => bytes + row.line.length, 0);

// A long run saves a snapshot now and then, so that loading a task costs at most about twice its
// snapshot. The distance doubles with the snapshot, so that all snapshots cost no more than the
// log.
function snapshotToSave({ from, to, rows }: TaskWrite): string | undefined {
  const rest = (from?.restBytes ?? 0) + sizeOf(rows);
  const due = rest > Math.max(SNAPSHOT_AFTER_BYTES, 2 * (from?.savedBytes ?? 0));
  return due || isListedChange(from?.snapshot, to.snapshot)
    ? encodeSnapshot(to.snapshot)
    : undefined;
}

function headAfter({ from, to, rows }: TaskWrite, saved: string | undefined): PgHead {
  const { task, snapshot, epoch, worker, leaseUntil } = to;
  return {
    task,
    snapshot,
    epoch,
    worker,
    leaseUntil,
    rev: (from?.rev ?? 0) + 1,
    savedBytes: saved?.length ?? from?.savedBytes ?? 0,
    restBytes: saved === undefined ? (from?.restBytes ?? 0) + sizeOf(rows) : 0,
  };
}

function taskValues(
  from: PgHead | undefined,
  { task, snapshot, epoch, worker, leaseUntil }: TaskHead,
  saved: string | undefined,
): readonly unknown[] {
  const { state, seq, updatedAt, agent, context, owner = '', turns } = snapshot;
  const tenant = turns[0]?.tenant ?? '';
  const leaseMs = leaseUntil === 0 ? 0 : Math.max(1, leaseUntil - steadyNow());
  const isNew = from === undefined;
  return [
    task,
    from?.rev ?? 0,
    seq,
    state,
    epoch,
    worker ?? null,
    leaseUntil === from?.leaseUntil ? null : leaseMs,
    needsRunner(snapshot, worker),
    isListedChange(from?.snapshot, snapshot) ? updatedAt : null,
    isFinal(state) ? updatedAt : null,
    isNew ? agent : null,
    isNew ? context : null,
    isNew ? owner : null,
    isNew ? tenant : null,
    isNew ? partyOf(snapshot) : null,
    saved ?? null,
  ];
}
