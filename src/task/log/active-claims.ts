import { DuolaneError, errorMessage } from '../../errors.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import type { Entry, Note, Seq, Snapshot } from '../../event/types.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { ReleasingMap } from '../../stream/releasing-map.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { ClaimRow, Commit, EntryRow, Store } from '../store/store.ts';
import type { RetainedTail } from './live-tail.ts';
import type { Claim } from '../types.ts';

/** A claim of this process. Its signal is created on first access. */
class ActiveClaim extends Cancellation implements Claim {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
  /** Every note up to this entry was passed on. */
  notifiedSeq: Seq;
  /** When another process may take the claim, unless the store replies before; monotonic clock. */
  until: number;
  over = false;
  readonly tail: RetainedTail | undefined;
  #listener: ((note: Entry & Note) => void) | undefined;
  #waitingNotes: (Entry & Note)[] = [];

  constructor({ task, epoch, snapshot }: ClaimRow, until: number, tail: RetainedTail | undefined) {
    super();
    this.task = task;
    this.epoch = epoch;
    this.snapshot = snapshot;
    this.notifiedSeq = snapshot.seq;
    this.until = until;
    this.tail = tail;
  }

  onNote(listener: (note: Entry & Note) => void): void {
    this.#listener = listener;
    for (const note of this.#waitingNotes.splice(0)) listener(note);
  }

  /**
   * Passes on notes. Throws if one cannot be decoded; then neither it nor a later one is passed on.
   */
  onRows(rows: readonly EntryRow[]): void {
    for (const row of rows) {
      if (row.seq <= this.notifiedSeq) continue;
      // An entry before it was not announced. The next heartbeat, at the latest, reads it.
      if (row.seq !== this.notifiedSeq + 1) return;
      const note = row.note && !this.over ? (decodeEntry(row.line) as Entry & Note) : undefined;
      this.notifiedSeq = row.seq;
      if (!note) continue;
      if (this.#listener) this.#listener(note);
      else this.#waitingNotes.push(note);
    }
  }

  /** May be called twice: a commit may end a claim while a heartbeat is about to. */
  end(): void {
    if (this.over) return;
    this.over = true;
    this.tail?.drop();
  }
}

/** The active claims of one log. Renews them, passes notes on, and aborts those that are lost. */
export class ActiveClaims {
  readonly #store: Store;
  readonly #leaseMs: number;
  readonly #beatMs: number;
  readonly #claims = new ReleasingMap<string, ActiveClaim>();
  #timer: NodeJS.Timeout | undefined;
  #beating = false;
  /** When half of the leases has passed without a heartbeat; monotonic clock. */
  #lateAt = Infinity;

  constructor(store: Store, { leaseMs, heartbeatMs }: { leaseMs: number; heartbeatMs: number }) {
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#beatMs = heartbeatMs;
  }

  /**
   * Adds a claim. `tail` is the live tail of the task, if it has seen every commit since the claim;
   * the claim drops it when it ends.
   */
  hold(row: ClaimRow, tail?: RetainedTail): Claim {
    const older = this.#claims.get(row.task);
    if (older) this.#end(older, lost(row.task));
    const mine = new ActiveClaim(row, performance.now() + this.#leaseMs, tail);
    if (this.#claims.size === 0) this.#lateAt = performance.now() + this.#leaseMs / 2;
    this.#claims.set(row.task, mine);
    // Commits between the claim and this line were announced before this claim could listen.
    if (tail?.head !== row.snapshot.seq) this.#catchUp(mine).catch(reportUnexpected);
    this.#timer ??= setInterval(() => {
      this.beat().catch(reportUnexpected);
    }, this.#beatMs);
    return mine;
  }

  commit({ task, epoch, claimed, rows, head }: Commit): void {
    const mine = this.#claims.get(task);
    // An older epoch is a commit from before this claim.
    if (!mine || epoch < mine.epoch) return;
    if (epoch > mine.epoch) return this.#end(mine, lost(task));
    this.#passOn(mine, rows);
    if (!claimed) this.#end(mine);
    // A commit of another replica is announced without its rows.
    else if (head > mine.notifiedSeq) this.#catchUp(mine).catch(reportUnexpected);
  }

  /** Drops a claim that its holder gives up. Returns false if it is over already. */
  drop({ task, epoch }: Claim): boolean {
    const mine = this.#claims.get(task);
    if (mine?.epoch !== epoch) return false;
    this.#end(mine);
    return true;
  }

  /** Renews every lease, and reads the notes that were not announced here. */
  async beat(): Promise<void> {
    if (this.#claims.size === 0) return;
    // A heartbeat without a reply does not keep the claims alive. A slow one may still renew them:
    // another claim holder would have fenced them.
    if (this.#beating) return this.#expire(this.#leaseMs);
    this.#beating = true;
    const until = performance.now() + this.#leaseMs;
    try {
      const claims = [...this.#claims.values()].map(({ task, epoch }) => ({ task, epoch }));
      const beaten = await this.#store.beat(claims, this.#leaseMs);
      this.#lateAt = until - this.#leaseMs / 2;
      const behind: Promise<void>[] = [];
      for (const [index, { task, claim, head }] of beaten.entries()) {
        const mine = this.#claims.get(task);
        // A new claim of the task may have begun meanwhile.
        if (!mine || mine.epoch !== claims[index]?.epoch) continue;
        if (claim === 'held') mine.until = until;
        if (claim === 'lost') this.#end(mine, lost(task));
        else if (claim === 'over') behind.push(this.#catchUp(mine).then(() => this.#end(mine)));
        else if (head > mine.notifiedSeq) behind.push(this.#catchUp(mine));
      }
      await Promise.all(behind);
    } catch {
      // The next heartbeat asks the store again, as long as the lease allows. `StoreHealth` reports
      // the failure.
      this.#expire();
    } finally {
      this.#beating = false;
    }
  }

  /**
   * Whether the leases are safe from a claim that this log makes now. After the process was
   * stopped, or the event loop was blocked, they may have expired: they are renewed first, so that
   * a runner does not take its own tasks.
   */
  async areRenewed(): Promise<boolean> {
    const isLate = (): boolean => this.#claims.size > 0 && performance.now() > this.#lateAt;
    if (isLate()) await this.beat();
    return !isLate();
  }

  #expire(graceMs = 0): void {
    // With an exclusive store, no other process can have claimed them.
    if (this.#store.exclusive) return;
    const now = performance.now();
    for (const mine of this.#claims.values())
      if (mine.until + graceMs <= now) this.#end(mine, unreachable(mine.task, this.#leaseMs));
  }

  /** Stops heartbeats and notes. The leases expire. */
  close(): void {
    clearInterval(this.#timer);
    for (const mine of this.#claims.values()) this.#end(mine, lost(mine.task));
  }

  /**
   * Reads notes that were not announced. Never rejects: after a failure the next heartbeat reads
   * them.
   */
  async #catchUp(mine: ActiveClaim): Promise<void> {
    while (!mine.over) {
      const { notifiedSeq: before } = mine;
      // After a failure of the store, the next heartbeat asks again.
      const found = await this.#store.read(mine.task, before).catch(() => undefined);
      this.#passOn(mine, found?.rows ?? []);
      // Compaction may have deleted rows of an ended task; then there is nothing to pass on.
      if (!found || mine.notifiedSeq === before || mine.notifiedSeq >= found.head) return;
    }
  }

  #passOn(mine: ActiveClaim, rows: readonly EntryRow[]): void {
    try {
      mine.onRows(rows);
    } catch (cause) {
      // The note may be a cancel or an answer, so the run must not go on without it. The lease
      // expires, and a replica that can read the note claims the task.
      const message = `cannot read a note of task "${mine.task}" here: ${errorMessage(cause)}`;
      this.#end(mine, new DuolaneError('fenced', message, { cause }));
    }
  }

  #end(mine: ActiveClaim, reason?: DuolaneError): void {
    if (this.#claims.get(mine.task) === mine) this.#claims.take(mine.task);
    if (this.#claims.size === 0) {
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
    `the claim of task "${task}" timed out after ${leaseMs} ms: no reply of the store; another runner may have claimed it`,
  );

const lost = (task: string): DuolaneError =>
  new DuolaneError(
    'fenced',
    `the claim of task "${task}" is lost: another runner has or may claim it`,
  );
