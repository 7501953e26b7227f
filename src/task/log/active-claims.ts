import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/index.ts';
import type { Entry, Note, Seq, Snapshot } from '../../event/types.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { Channel } from '../../stream/index.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { ClaimRow, Commit, EntryRow, Store } from '../store/store.ts';
import type { RetainedTail } from './live-tail.ts';
import type { Claim } from '../types.ts';

/** A claim of this process. Its signal and its notes cost nothing unless somebody looks at them. */
class ActiveClaim extends Cancellation implements Claim {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
  /** Up to here every note was passed on. */
  notifiedSeq: Seq;
  /** When the claim may be another's, if the store does not answer before; by the monotonic clock. */
  until: number;
  over = false;
  readonly tail: RetainedTail | undefined;
  #ear: ((note: Entry & Note) => void) | undefined;
  #unheard: (Entry & Note)[] = [];
  #notes: Channel<Entry & Note> | undefined;

  constructor({ task, epoch, snapshot }: ClaimRow, until: number, tail: RetainedTail | undefined) {
    super();
    this.task = task;
    this.epoch = epoch;
    this.snapshot = snapshot;
    this.notifiedSeq = snapshot.seq;
    this.until = until;
    this.tail = tail;
  }

  get notes(): AsyncIterable<Entry & Note> {
    if (this.#notes) return this.#notes;
    const notes = (this.#notes = new Channel());
    this.onNote((note) => {
      if (!notes.ended) notes.offer(note);
    });
    if (this.over) notes.close();
    return notes;
  }

  onNote(ear: (note: Entry & Note) => void): void {
    this.#ear = ear;
    for (const note of this.#unheard.splice(0)) ear(note);
  }

  /** Throws when a note cannot be decoded; it was then not passed on, and neither is a later one. */
  onRows(rows: readonly EntryRow[]): void {
    for (const row of rows) {
      if (row.seq <= this.notifiedSeq) continue;
      // Something before it was not announced; it is read at the latest by the next beat.
      if (row.seq !== this.notifiedSeq + 1) return;
      const note = row.note && !this.over ? (decodeEntry(row.line) as Entry & Note) : undefined;
      this.notifiedSeq = row.seq;
      if (!note) continue;
      if (this.#ear) this.#ear(note);
      else this.#unheard.push(note);
    }
  }

  /** Twice is fine: a commit may end a claim while a beat is about to. */
  end(): void {
    if (this.over) return;
    this.over = true;
    this.tail?.drop();
    this.#notes?.close();
  }
}

/** The claims of one log: kept alive, told what others write, and told when they are lost. */
export class ActiveClaims {
  readonly #store: Store;
  readonly #leaseMs: number;
  readonly #beatMs: number;
  readonly #held = new ReleasingMap<string, ActiveClaim>();
  #timer: NodeJS.Timeout | undefined;
  #beating = false;
  /** When half of the leases has passed without a heartbeat, by the monotonic clock. */
  #lateAt = Infinity;

  constructor(store: Store, { leaseMs, heartbeatMs }: { leaseMs: number; heartbeatMs: number }) {
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#beatMs = heartbeatMs;
  }

  /** `tail`: that of the task, if it has seen every commit since the claim; dropped when that is over. */
  hold(row: ClaimRow, tail?: RetainedTail): Claim {
    const older = this.#held.get(row.task);
    if (older) this.#end(older, lost(row.task));
    const mine = new ActiveClaim(row, performance.now() + this.#leaseMs, tail);
    if (this.#held.size === 0) this.#lateAt = performance.now() + this.#leaseMs / 2;
    this.#held.set(row.task, mine);
    // What was committed between the claim and this line was announced to nobody else.
    if (tail?.head !== row.snapshot.seq) this.#catchUp(mine).catch(reportUnexpected);
    this.#timer ??= setInterval(() => {
      this.beat().catch(reportUnexpected);
    }, this.#beatMs);
    return mine;
  }

  commit({ task, epoch, held, rows, head }: Commit): void {
    const mine = this.#held.get(task);
    // An older epoch is news from before this claim.
    if (!mine || epoch < mine.epoch) return;
    if (epoch > mine.epoch) return this.#end(mine, lost(task));
    this.#hear(mine, rows);
    if (!held) this.#end(mine);
    // What another replica wrote is announced without its rows.
    else if (head > mine.notifiedSeq) this.#catchUp(mine).catch(reportUnexpected);
  }

  /** The claim was given up by its holder. Whether there was one: it may be over already. */
  drop({ task, epoch }: Claim): boolean {
    const mine = this.#held.get(task);
    if (mine?.epoch !== epoch) return false;
    this.#end(mine);
    return true;
  }

  /** Extends every lease, and reads what was written without being announced here. */
  async beat(): Promise<void> {
    if (this.#held.size === 0) return;
    // A beat that the store never answers does not keep the claims alive. One that is only slow may
    // still find them: another owner would have fenced them.
    if (this.#beating) return this.#expire(this.#leaseMs);
    this.#beating = true;
    const until = performance.now() + this.#leaseMs;
    try {
      const claims = [...this.#held.values()].map(({ task, epoch }) => ({ task, epoch }));
      const beaten = await this.#store.beat(claims, this.#leaseMs);
      this.#lateAt = until - this.#leaseMs / 2;
      const behind: Promise<void>[] = [];
      for (const [index, { task, claim, head }] of beaten.entries()) {
        const mine = this.#held.get(task);
        // Another claim of the task may have begun since.
        if (!mine || mine.epoch !== claims[index]?.epoch) continue;
        if (claim === 'held') mine.until = until;
        if (claim === 'lost') this.#end(mine, lost(task));
        else if (claim === 'over') behind.push(this.#catchUp(mine).then(() => this.#end(mine)));
        else if (head > mine.notifiedSeq) behind.push(this.#catchUp(mine));
      }
      await Promise.all(behind);
    } catch {
      // A store that does not answer now is asked again at the next beat, as long as the lease allows.
      // The log reports its failure.
      this.#expire();
    } finally {
      this.#beating = false;
    }
  }

  /**
   * Whether the leases are safe from a claim that this log makes now. After the process was stopped,
   * or the event loop blocked, they may have ended: they are extended first, so that a runner does
   * not take its own tasks from itself.
   */
  async areRenewed(): Promise<boolean> {
    const isLate = (): boolean => this.#held.size > 0 && performance.now() > this.#lateAt;
    if (isLate()) await this.beat();
    return !isLate();
  }

  #expire(graceMs = 0): void {
    // No other process can have claimed them.
    if (this.#store.exclusive) return;
    const now = performance.now();
    for (const mine of this.#held.values())
      if (mine.until + graceMs <= now) this.#end(mine, unreachable(mine.task, this.#leaseMs));
  }

  /** Stops heartbeats and notes. The leases run out by themselves. */
  close(): void {
    clearInterval(this.#timer);
    for (const mine of this.#held.values()) this.#end(mine, lost(mine.task));
  }

  /** Never rejects: what could not be read is read after the next beat. */
  async #catchUp(mine: ActiveClaim): Promise<void> {
    while (!mine.over) {
      const { notifiedSeq: heard } = mine;
      // A store that fails now is asked again after the next beat.
      const found = await this.#store.read(mine.task, heard).catch(() => undefined);
      this.#hear(mine, found?.rows ?? []);
      // Rows of a task that ended may be compacted away; then there is nothing to pass on.
      if (!found || mine.notifiedSeq === heard || mine.notifiedSeq >= found.head) return;
    }
  }

  #hear(mine: ActiveClaim, rows: readonly EntryRow[]): void {
    try {
      mine.onRows(rows);
    } catch (cause) {
      // It may be a cancel or an answer, so the run must not go on without it. Its lease runs out,
      // and a replica that can read the note claims the task.
      const message = `a note of task ${mine.task} cannot be read here: ${String(cause)}`;
      this.#end(mine, new DuolaneError('fenced', message, { cause }));
    }
  }

  #end(mine: ActiveClaim, reason?: DuolaneError): void {
    if (this.#held.get(mine.task) === mine) this.#held.take(mine.task);
    if (this.#held.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    mine.end();
    if (reason) mine.abort(reason);
  }
}

const unreachable = (task: string, leaseMs: number): DuolaneError =>
  new DuolaneError(
    'fenced',
    `the store has not answered for ${leaseMs} ms: the claim of task ${task} may be another's by now`,
  );

const lost = (task: string): DuolaneError =>
  new DuolaneError('fenced', `the claim of task ${task} is lost: another owner has it or may`);
