import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import { advance, needsRun } from '../../event/fold/advance.ts';
import { isFinal } from '../../event/fold/entry-rules.ts';
import { awaitsEvent, dueAt } from '../../event/fold/steps.ts';
import { recoverRun } from '../../event/fold/recover-run.ts';
import { turnChars } from '../../event/fold/turns.ts';
import type { Entry, Seq, Snapshot, Turn } from '../../event/types.ts';
import { encodeEvent, isNote, numberLine } from './line-codec.ts';
import type { AppendRequest, ClaimRow, Commit, EntryRow, SubmitRequest } from './store.ts';
import { partyOf } from './run-queue.ts';
import { steadyNow } from '../steady-clock.ts';
import { turnKeyOf, type TaskHead, type TaskStorage } from './storage-engine.ts';

export const CHUNK_BYTES: number = 1 << 20;
const QUEUE_RETRY_MS = 5000;
/** The turns of one task that wait for their runs. */
const MAX_WAITING_TURNS = 100;
const MAX_WAITING_CHARS = 4 << 20;

/** The clocks of the rules, for tests. */
export interface RuleClocks {
  /** Dates entries, in Unix ms. */
  readonly now?: () => number;
  /** Measures leases. It does not jump when the wall clock is set. */
  readonly steady?: () => number;
}

/**
 * The rules for writing one task: who may write what, and what follows. Each method decides before
 * it writes, so a refusal leaves nothing behind. `takeCommits` returns what was written, once the
 * engine has committed it. A storage that finds and lists tasks by itself uses these alone.
 */
export class TaskRules {
  readonly #storage: TaskStorage;
  readonly #now: () => number;
  protected readonly steadyNow: () => number;
  #commits: Commit[] = [];

  constructor(storage: TaskStorage, { now = Date.now, steady = steadyNow }: RuleClocks = {}) {
    this.#storage = storage;
    this.#now = now;
    this.steadyNow = steady;
  }

  /** Returns what was written since the last call, to be announced once it is durable. */
  takeCommits(): Commit[] {
    const commits = this.#commits;
    this.#commits = [];
    return commits;
  }

  submit({ note, worker, leaseMs, dedupe, maxQueued = Infinity }: SubmitRequest): {
    readonly task: string;
    readonly row: EntryRow;
    readonly claim?: ClaimRow;
  } {
    const asFirst = decodeEntry(numberLine(note, 1)) as SubmittedEntry;
    const { turn } = asFirst;
    const key = turnKeyOf(turn);
    const known = dedupe ? this.#storage.turn(key) : undefined;
    const row = known && this.#storage.rows(known.task, known.seq - 1, 1, CHUNK_BYTES)[0];
    const head = this.#storage.load(turn.task);
    if (known && row) {
      if (head && known.task !== turn.task)
        throw new DuolaneError(
          'invalid',
          `message "${turn.messageId}" belongs to task "${known.task}"; a message to another task must have its own id`,
        );
      return { task: known.task, row };
    }
    if (head && head.snapshot.agent !== turn.agent)
      throw new DuolaneError(
        'invalid',
        `task "${turn.task}" belongs to agent "${head.snapshot.agent}"; a turn for "${turn.agent}" must have its own task`,
      );
    refuseAnswers(head?.snapshot, turn);
    if (head && turn.parts.length > 0) refuseBeyondTurns(head.snapshot, turn);
    const { to, rows } = this.#fold(turn.task, head, [note], asFirst);
    if (!head) this.#refuseBeyond(maxQueued, to.snapshot);
    // Only `claim` takes a claim whose lease has expired: it knows whether its holder is gone.
    const isClaimed = worker !== undefined && to.worker === undefined && needsRun(to.snapshot);
    const next = isClaimed ? this.claimed(to, worker, leaseMs) : to;
    this.write(head, next, rows);
    const first = rows[0] as EntryRow;
    if (dedupe) this.#storage.rememberTurn(key, turn.task, first.seq);
    return { task: turn.task, row: first, ...(isClaimed && { claim: claimRow(next) }) };
  }

  cancel(task: string, note: string, force = false): Snapshot {
    const head = this.find(task);
    const { snapshot } = head;
    if (snapshot.state === 'canceled') return snapshot;
    if (isFinal(snapshot.state))
      throw new DuolaneError(
        'closed',
        `cannot cancel task "${task}": it has ended as ${snapshot.state}`,
      );
    const live = this.#live(head) && !force;
    if (snapshot.canceling && live) return snapshot;
    const requested = snapshot.canceling ? { to: head, rows: [] } : this.#fold(task, head, [note]);
    if (live) return this.write(head, requested.to, requested.rows);
    // No claim holder is alive to write the end, or it does not do it in time: write the end here,
    // and fence a holder that comes back.
    const end = recoverRun(requested.to.snapshot, {}).map((event) =>
      encodeEvent(event, this.#now()),
    );
    const { to, rows } = this.#fold(task, requested.to, end);
    const fenced = { ...free(to), epoch: to.epoch + 1 };
    return this.write(head, fenced, [...requested.rows, ...rows]);
  }

  append({ task, epoch, after, events }: AppendRequest): Seq {
    const head = this.find(task);
    const { seq, state } = head.snapshot;
    if (head.epoch !== epoch)
      throw new DuolaneError(
        'fenced',
        `cannot append to task "${task}": another runner claimed it`,
      );
    if (isFinal(state))
      throw new DuolaneError('closed', `cannot append to task "${task}": it has ended as ${state}`);
    if (seq !== after)
      throw new DuolaneError(
        'conflict',
        `cannot append to task "${task}" after ${after}: its last entry is ${seq}; read on first`,
      );
    if (head.worker === undefined)
      throw new DuolaneError('fenced', `cannot append to task "${task}": its claim is over`);
    const { to, rows } = this.#fold(task, head, events);
    if (rows.some((row) => row.note))
      throw new DuolaneError(
        'invalid',
        'cannot append a note with a claim; use submit or requestCancel',
      );
    const { running, suspended } = to.snapshot;
    this.write(head, needsRun(to.snapshot) || (running && !suspended) ? to : free(to), rows);
    return to.snapshot.seq;
  }

  release(task: string, epoch: number): void {
    const head = this.#storage.load(task);
    if (head?.epoch !== epoch || head.worker === undefined) return;
    this.write(head, free(head), []);
  }

  protected find(task: string): TaskHead {
    const head = this.#storage.load(task);
    if (!head)
      throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
    return head;
  }

  protected claimed(head: TaskHead, worker: string, leaseMs: number): TaskHead {
    return { ...head, epoch: head.epoch + 1, worker, leaseUntil: this.steadyNow() + leaseMs };
  }

  protected write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): Snapshot {
    this.#storage.write(from, to, rows);
    const { snapshot } = to;
    this.#commits.push({
      task: to.task,
      epoch: to.epoch,
      claimed: to.worker !== undefined,
      rows,
      head: snapshot.seq,
      ended: isFinal(snapshot.state),
      // A new time to wake a task may be the first one, so runners look when to claim next.
      claimable: (needsRun(snapshot) || dueAt(snapshot) !== undefined) && !this.#live(to),
    });
    return snapshot;
  }

  #refuseBeyond(maxQueued: number, snapshot: Snapshot): void {
    const party = partyOf(snapshot);
    const queued = maxQueued === Infinity ? 0 : this.#storage.queued(party);
    if (queued < maxQueued) return;
    throw new DuolaneError(
      'overloaded',
      `tasks of ${party === '' ? 'callers without a name' : `"${party}"`} exceed maxQueuedPerOwner (${maxQueued}): ${queued} wait for a runner; send this one later`,
      { retryAfterMs: QUEUE_RETRY_MS },
    );
  }

  #live({ worker, leaseUntil }: TaskHead): boolean {
    return worker !== undefined && leaseUntil > this.steadyNow();
  }

  /** `asFirst`: the decoded event, if it is the first entry of its task. */
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
}

/**
 * Refuses an answer unless its question is open. The first answer counts: a later one, as from a
 * second browser tab, is a `conflict`. An answer to a question that was not asked yet, or was
 * withdrawn, is `invalid`: its sender must not believe that it decided. Without that rule an answer
 * could be in the log before its question: the run would take it, and readers would still see the
 * question open. A question that is asked again under its id is open again.
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
    if (snapshot && awaitsEvent(snapshot, id)) continue;
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

/**
 * Refuses a turn if too many of its task wait for their runs: they are all in memory, and in each
 * snapshot that is written.
 */
function refuseBeyondTurns({ unserved }: Snapshot, turn: Turn): void {
  if (unserved.length === 0) return;
  const chars = unserved.reduce((sum, each) => sum + turnChars(each), turnChars(turn));
  if (unserved.length < MAX_WAITING_TURNS && chars <= MAX_WAITING_CHARS) return;
  throw new DuolaneError(
    'overloaded',
    `too many turns of task "${turn.task}" wait for their runs: expected at most ${MAX_WAITING_TURNS} with ${MAX_WAITING_CHARS} characters; send this one later`,
    { retryAfterMs: QUEUE_RETRY_MS },
  );
}

const free = (head: TaskHead): TaskHead => ({ ...head, worker: undefined, leaseUntil: 0 });

type SubmittedEntry = Extract<Entry, { readonly type: 'turn.submitted' }>;

/** The refusal of values of a runner that no longer has the claim. */
export const lostClaim = (task: string): DuolaneError =>
  new DuolaneError('fenced', `cannot store values of task "${task}": its claim is over or lost`);

export const claimRow = ({ task, epoch, snapshot }: TaskHead): ClaimRow => ({
  task,
  epoch,
  snapshot,
});
