import { DuolaneError } from '../errors.ts';
import { decodeEntry } from '../event/index.ts';
import type { Entry, Note, Seq } from '../event/types.ts';
import { Channel } from '../stream/index.ts';
import type { ClaimRow, Commit, Row, Store } from './store.ts';
import type { Claim } from './types.ts';

interface Held {
  readonly claim: Claim;
  readonly lost: AbortController;
  readonly notes: Channel<Entry & Note>;
  /** Up to here every note was passed on. */
  heard: Seq;
}

/** The claims of one log: kept alive, told what others write, and told when they are lost. */
export class HeldClaims {
  readonly #store: Store;
  readonly #leaseMs: number;
  readonly #beatMs: number;
  readonly #held = new Map<string, Held>();
  #timer: NodeJS.Timeout | undefined;
  #beating = false;

  constructor(store: Store, { leaseMs, heartbeatMs }: { leaseMs: number; heartbeatMs: number }) {
    this.#store = store;
    this.#leaseMs = leaseMs;
    this.#beatMs = heartbeatMs;
  }

  hold({ task, epoch, snapshot }: ClaimRow): Claim {
    const older = this.#held.get(task);
    if (older) this.#end(older, lost(task));
    const notes = new Channel<Entry & Note>();
    const controller = new AbortController();
    const claim = { task, epoch, snapshot, signal: controller.signal, notes };
    const mine = { claim, lost: controller, notes, heard: snapshot.seq };
    this.#held.set(task, mine);
    // What was committed between the claim and this line was announced to nobody.
    this.#catchUp(mine).catch(() => {});
    this.#timer ??= setInterval(() => void this.beat(), this.#beatMs);
    return claim;
  }

  commit({ task, epoch, held, rows }: Commit): void {
    const mine = this.#held.get(task);
    // An older epoch is news from before this claim.
    if (!mine || epoch < mine.claim.epoch) return;
    if (epoch > mine.claim.epoch) return this.#end(mine, lost(task));
    this.#hear(mine, rows);
    if (!held) this.#end(mine);
  }

  /** The claim was given up by its holder. */
  drop({ task, epoch }: Claim): void {
    const mine = this.#held.get(task);
    if (mine?.claim.epoch === epoch) this.#end(mine);
  }

  /** Extends every lease, and reads what was written without being announced here. */
  async beat(): Promise<void> {
    if (this.#beating || this.#held.size === 0) return;
    this.#beating = true;
    try {
      const claims = [...this.#held.values()].map(({ claim: { task, epoch } }) => ({
        task,
        epoch,
      }));
      for (const { task, claim, head } of await this.#store.beat(claims, this.#leaseMs)) {
        const mine = this.#held.get(task);
        if (!mine) continue;
        if (claim === 'lost') this.#end(mine, lost(task));
        else if (head > mine.heard) await this.#catchUp(mine);
        if (claim === 'over') this.#end(mine);
      }
    } catch {
      // A store that does not answer now is asked again at the next beat; the lease allows for it.
    } finally {
      this.#beating = false;
    }
  }

  /** Stops heartbeats and notes. The leases run out by themselves. */
  close(): void {
    clearInterval(this.#timer);
    for (const mine of this.#held.values()) this.#end(mine, lost(mine.claim.task));
  }

  async #catchUp(mine: Held): Promise<void> {
    while (!mine.notes.ended) {
      const found = await this.#store.read(mine.claim.task, mine.heard);
      this.#hear(mine, found?.rows ?? []);
      if (!found || mine.heard >= found.head) return;
    }
  }

  #hear(mine: Held, rows: readonly Row[]): void {
    for (const row of rows) {
      if (row.seq <= mine.heard) continue;
      // Something before it was not announced; it is read at the latest by the next beat.
      if (row.seq !== mine.heard + 1) return;
      mine.heard = row.seq;
      if (row.note && !mine.notes.ended) mine.notes.offer(decodeEntry(row.line) as Entry & Note);
    }
  }

  #end(mine: Held, reason?: DuolaneError): void {
    if (this.#held.get(mine.claim.task) === mine) this.#held.delete(mine.claim.task);
    if (this.#held.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    mine.notes.close();
    if (reason) mine.lost.abort(reason);
  }
}

const lost = (task: string): DuolaneError =>
  new DuolaneError('fenced', `the claim of task ${task} is lost: another owner has it or may`);
