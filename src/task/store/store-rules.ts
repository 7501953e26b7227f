import { DuolaneError } from '../../errors.ts';
import { advance, decodeEntry, isFinal, needsRun, recoverRun } from '../../event/index.ts';
import type { Entry, Seq, Snapshot, Turn } from '../../event/types.ts';
import { encodeEvent, isNote, numberLine } from './line-codec.ts';
import { compactableRows } from './compaction.ts';
import type {
  AppendRequest,
  ClaimRow,
  Commit,
  DamagedTask,
  ReadResult,
  EntryRow,
  StoreMethods,
  SubmitRequest,
  TaskFilter,
} from './store.ts';
import { isDamage } from './page-builder.ts';
import { partyOf } from './run-queue.ts';
import { steadyNow } from '../steady-clock.ts';
import {
  turnKeyOf,
  type TaskHead,
  type StorageEngine,
  type TaskStorage,
} from './storage-engine.ts';

const CHUNK_ROWS = 256;
const CHUNK_BYTES = 1 << 20;
const PRUNE_TASKS = 20;
const QUEUE_RETRY_MS = 5000;

export interface LedgerClocks {
  readonly now?: () => number;
  readonly steady?: () => number;
}

/**
 * The rules of the log, once for every engine that can run them inside a transaction: who may
 * write, where, and what follows. Each method decides before it writes, so a refusal leaves nothing
 * behind. What was done waits in `takeCommits` until the engine has committed it.
 */
export class StoreRules implements StoreMethods {
  readonly #tables: StorageEngine;
  readonly #now: () => number;
  readonly #steadyNow: () => number;
  #commits: Commit[] = [];

  /** `now` dates entries; leases are measured by `steady`, which does not jump when the clock is set. */
  constructor(tables: StorageEngine, { now = Date.now, steady = steadyNow }: LedgerClocks = {}) {
    this.#tables = tables;
    this.#now = now;
    this.#steadyNow = steady;
  }

  /** What was written since the last call, to be announced once it is durable. */
  takeCommits(): Commit[] {
    const commits = this.#commits;
    this.#commits = [];
    return commits;
  }

  submit({
    note,
    worker,
    leaseMs,
    dedupe,
    maxQueued = Infinity,
  }: SubmitRequest): ReturnType<StoreMethods['submit']> {
    const asFirst = decodeEntry(numberLine(note, 1)) as SubmittedEntry;
    const { turn } = asFirst;
    const key = turnKeyOf(turn);
    const known = dedupe ? this.#tables.turn(key) : undefined;
    const there = known && this.#tables.rows(known.task, known.seq - 1, 1, CHUNK_BYTES)[0];
    const head = this.#tables.load(turn.task);
    if (known && there) {
      if (head && known.task !== turn.task)
        throw new DuolaneError(
          'invalid',
          `message ${turn.messageId} is of task ${known.task}; a message to another task needs an id of its own`,
        );
      return { task: known.task, row: there };
    }
    if (head && head.snapshot.agent !== turn.agent)
      throw new DuolaneError(
        'invalid',
        `task ${turn.task} belongs to agent ${head.snapshot.agent}; a turn for ${turn.agent} needs a task of its own`,
      );
    refuseAnswers(head?.snapshot, turn);
    const { to, rows } = this.#fold(turn.task, head, [note], asFirst);
    if (!head) this.#refuseBeyond(maxQueued, to.snapshot);
    // A claim whose lease has ended is taken by `claim` alone, which knows whether its owner is gone.
    const claimed = worker !== undefined && to.worker === undefined && needsRun(to.snapshot);
    const next = claimed ? this.#claimed(to, worker, leaseMs) : to;
    this.#write(head, next, rows);
    const row = rows[0] as EntryRow;
    if (dedupe) this.#tables.rememberTurn(key, turn.task, row.seq);
    return { task: turn.task, row, ...(claimed && { claim: claimRow(next) }) };
  }

  cancel(task: string, note: string, force = false): Snapshot {
    const head = this.#find(task);
    const { snapshot } = head;
    if (snapshot.state === 'canceled') return snapshot;
    if (isFinal(snapshot.state))
      throw new DuolaneError('closed', `task ${task} cannot be canceled: it is ${snapshot.state}`);
    const live = this.#live(head) && !force;
    if (snapshot.canceling && live) return snapshot;
    const requested = snapshot.canceling ? { to: head, rows: [] } : this.#fold(task, head, [note]);
    if (live) return this.#write(head, requested.to, requested.rows);
    // Nobody is there to write the end, or nobody does, so it is written here, past any owner that comes back.
    const end = recoverRun(requested.to.snapshot, {}).map((event) =>
      encodeEvent(event, this.#now()),
    );
    const { to, rows } = this.#fold(task, requested.to, end);
    const fenced = { ...free(to), epoch: to.epoch + 1 };
    return this.#write(head, fenced, [...requested.rows, ...rows]);
  }

  claim(
    worker: string,
    agents: readonly string[],
    leaseMs: number,
    except: readonly string[] = [],
  ): ReturnType<StoreMethods['claim']> {
    const now = this.#steadyNow();
    const damaged: DamagedTask[] = [];
    for (;;) {
      const task = this.#tables.claimable(agents, now, except);
      if (task === undefined) {
        const lease = this.#tables.nextLease(agents);
        return {
          ...(lease !== undefined && { retryInMs: Math.max(1, lease - now) }),
          ...found(damaged),
        };
      }
      const head = this.#readable(task, damaged);
      if (!head) continue;
      const next = this.#claimed(head, worker, leaseMs);
      this.#write(head, next, []);
      return { claim: claimRow(next), ...found(damaged) };
    }
  }

  /** One damaged task must not keep all others from being claimed. */
  #readable(task: string, damaged: DamagedTask[]): TaskHead | undefined {
    try {
      return this.#find(task);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#tables.setAside(task);
      damaged.push({ task, reason: String(error) });
      return undefined;
    }
  }

  /** For what is asked about many tasks at once: one that cannot be read counts as gone. */
  #loadIntact(task: string): TaskHead | undefined {
    try {
      return this.#tables.load(task);
    } catch (error) {
      if (!isDamage(error)) throw error;
      return undefined;
    }
  }

  append({ task, epoch, after, events }: AppendRequest): Seq {
    const head = this.#find(task);
    const { seq } = head.snapshot;
    if (head.epoch !== epoch)
      throw new DuolaneError('fenced', `task ${task} has another owner now; stop, write nothing`);
    if (isFinal(head.snapshot.state))
      throw new DuolaneError('closed', `task ${task} has ended: it is ${head.snapshot.state}`);
    if (seq !== after)
      throw new DuolaneError('conflict', `task ${task} is at ${seq}, not at ${after}; read on`);
    if (head.worker === undefined)
      throw new DuolaneError('fenced', `the claim of task ${task} is over; stop, write nothing`);
    const { to, rows } = this.#fold(task, head, events);
    const note = rows.find((row) => row.note);
    if (note)
      throw new DuolaneError('invalid', 'a claim writes agent events; use submit or requestCancel');
    this.#write(head, needsRun(to.snapshot) || to.snapshot.running ? to : free(to), rows);
    return to.snapshot.seq;
  }

  release(task: string, epoch: number): void {
    const head = this.#tables.load(task);
    if (head?.epoch !== epoch || head.worker === undefined) return;
    this.#write(head, free(head), []);
  }

  beat(
    claims: readonly { readonly task: string; readonly epoch: number }[],
    leaseMs: number,
  ): ReturnType<StoreMethods['beat']> {
    const leaseUntil = this.#steadyNow() + leaseMs;
    return claims.map(({ task, epoch }) => {
      const head = this.#loadIntact(task);
      if (!head) return { task, claim: 'lost', head: 0 };
      const { seq } = head.snapshot;
      if (head.epoch !== epoch) return { task, claim: 'lost', head: seq };
      if (head.worker === undefined) return { task, claim: 'over', head: seq };
      this.#tables.write(head, { ...head, leaseUntil }, []);
      return { task, claim: 'held', head: seq };
    });
  }

  read(task: string, after: Seq, maxBytes: number = CHUNK_BYTES): ReadResult | undefined {
    const head = this.#tables.load(task);
    if (!head) return undefined;
    const rows = this.#tables.rows(task, after, CHUNK_ROWS, Math.min(maxBytes, CHUNK_BYTES));
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
    return this.#tables.load(task)?.snapshot;
  }

  page(request: Parameters<StoreMethods['page']>[0]): ReturnType<StoreMethods['page']> {
    return this.#tables.page(request);
  }

  count(filter: TaskFilter): number {
    return this.#tables.count(filter);
  }

  bookmark(mark: Parameters<StoreMethods['bookmark']>[0]): void {
    this.#find(mark.task);
    this.#tables.putBookmark(mark);
  }

  bookmarks(
    ...[task, after]: Parameters<StoreMethods['bookmarks']>
  ): ReturnType<StoreMethods['bookmarks']> {
    return this.#tables.bookmarks(task, after, CHUNK_ROWS);
  }

  ended(before: number): string[] {
    return this.#tables.ended(before, PRUNE_TASKS);
  }

  remove(tasks: readonly string[]): void {
    for (const task of tasks) this.#tables.remove(task);
  }

  compact(before: number): number {
    const tasks = this.#tables.uncompacted(before, PRUNE_TASKS);
    for (const task of tasks) this.#tables.compact(task, this.#disposable(task));
    return tasks.length;
  }

  /** A task that cannot be read keeps its rows; others are still compacted. */
  #disposable(task: string): readonly Seq[] {
    try {
      return compactableRows(this.#everyRow(task));
    } catch (error) {
      if (!isDamage(error)) throw error;
      return [];
    }
  }

  probe(thorough = false): void {
    this.#tables.probe(thorough);
  }

  *#everyRow(task: string): Generator<EntryRow> {
    for (let after = 0; ;) {
      const rows = this.#tables.rows(task, after, CHUNK_ROWS, CHUNK_BYTES);
      yield* rows;
      const last = rows.at(-1);
      if (!last) return;
      after = last.seq;
    }
  }

  #refuseBeyond(maxQueued: number, snapshot: Snapshot): void {
    const party = partyOf(snapshot);
    const queued = maxQueued === Infinity ? 0 : this.#tables.queued(party);
    if (queued < maxQueued) return;
    throw new DuolaneError(
      'overloaded',
      `tasks of ${party === '' ? 'callers without a name' : `"${party}"`} exceed maxQueuedPerOwner (${maxQueued}): ${queued} wait for a runner; send this one later`,
      { retryAfterMs: QUEUE_RETRY_MS },
    );
  }

  #find(task: string): TaskHead {
    const head = this.#tables.load(task);
    if (!head) throw new DuolaneError('not_found', `there is no task ${task}`);
    return head;
  }

  #live({ worker, leaseUntil }: TaskHead): boolean {
    return worker !== undefined && leaseUntil > this.#steadyNow();
  }

  #claimed(head: TaskHead, worker: string, leaseMs: number): TaskHead {
    return { ...head, epoch: head.epoch + 1, worker, leaseUntil: this.#steadyNow() + leaseMs };
  }

  /** `asFirst`: the event as it is read if it is the first of its task. */
  #fold(
    task: string,
    from: TaskHead | undefined,
    events: readonly string[],
    asFirst?: Entry,
  ): { readonly to: TaskHead; readonly rows: EntryRow[] } {
    let snapshot = from?.snapshot;
    const rows = events.map((event): EntryRow => {
      const seq = (snapshot?.seq ?? 0) + 1;
      const line = numberLine(event, seq);
      const entry = seq === 1 && asFirst ? asFirst : decodeEntry(line);
      snapshot = advance(snapshot, entry);
      return { seq, note: isNote(entry), line };
    });
    const { epoch = 0, worker, leaseUntil = 0 } = from ?? {};
    return { to: { task, snapshot: snapshot as Snapshot, epoch, worker, leaseUntil }, rows };
  }

  #write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): Snapshot {
    this.#tables.write(from, to, rows);
    const { snapshot } = to;
    this.#commits.push({
      task: to.task,
      epoch: to.epoch,
      held: to.worker !== undefined,
      rows,
      head: snapshot.seq,
      ended: isFinal(snapshot.state),
      claimable: needsRun(snapshot) && !this.#live(to),
    });
    return snapshot;
  }
}

/** How tasks are written, without what looks through all of them. */
export type WriteRules = Pick<
  StoreRules,
  'submit' | 'cancel' | 'append' | 'release' | 'takeCommits'
>;

/** The same rules for an engine that finds tasks by itself and has only some of them at hand. */
export const writeRules = (tables: TaskStorage): WriteRules =>
  // These methods ask nothing else of their tables.
  new StoreRules(tables as StorageEngine);

/**
 * The first answer to a question counts. A later one, as from a second browser tab, is refused, and so
 * is one to a question that is not open (not yet asked, or withdrawn): its sender must not believe
 * that it decided. Without the second rule an answer could stand in the log before its question: the
 * run would take it, and every reader would still see the question open. A question that is asked
 * again under its id is open again.
 */
function refuseAnswers(snapshot: Snapshot | undefined, { task, ...turn }: Turn): void {
  const { state, pending = [], answers = [], turns = [] } = snapshot ?? {};
  const given = new Set<string>();
  for (const { id } of turn.answers ?? []) {
    if (given.has(id))
      throw new DuolaneError(
        'invalid',
        `message "${turn.messageId}" answers question "${id}" twice; a question takes one answer`,
      );
    given.add(id);
    if (pending.some((question) => question.id === id)) continue;
    const first = turns.find((earlier) => earlier.answers?.some((answer) => answer.id === id));
    const isKnown = first !== undefined || answers.some((answer) => answer.id === id);
    // A task that has ended refuses every turn as `closed`.
    if (!isKnown && state !== undefined && isFinal(state)) continue;
    if (!isKnown)
      throw new DuolaneError(
        'invalid',
        `question "${id}" of task "${task}" is not open: it was never asked, or was withdrawn; read the task, and answer what it asks`,
      );
    const by = first?.owner === undefined ? '' : ` by "${first.owner}"`;
    const where = first ? `${by} with message "${first.messageId}"` : '';
    throw new DuolaneError(
      'conflict',
      `question "${id}" of task "${task}" was already answered${where}; the first answer counts`,
      { retryable: false },
    );
  }
}

const free = (head: TaskHead): TaskHead => ({ ...head, worker: undefined, leaseUntil: 0 });

const found = (damaged: readonly DamagedTask[]) => (damaged.length > 0 ? { damaged } : {});

type SubmittedEntry = Extract<Entry, { readonly type: 'turn.submitted' }>;

const claimRow = ({ task, epoch, snapshot }: TaskHead): ClaimRow => ({ task, epoch, snapshot });
