import { DuolaneError } from '../../errors.ts';
import { advance, rebaseEvents, isFinal, recoverRun } from '../../event/index.ts';
import type { AgentEvent, Entry, Note, Snapshot } from '../../event/types.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { sleep } from '../../stream/index.ts';
import { isNote } from '../store/line-codec.ts';
import type { Claim, TaskLog } from '../types.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/**
 * Writes a claimed task: each batch lands exactly once and in order, whatever slips in between and
 * whichever acknowledgement is lost, or `put` throws and nothing more may be written. One `put` at
 * a time.
 */
export class TaskWriter {
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #hear: (note: Entry & Note) => void;
  readonly #givenUp = new Cancellation();
  #snapshot: Snapshot;

  /** `hear` is told every note that a batch ran into; it may have heard it before. */
  constructor(log: TaskLog, claim: Claim, hear: (note: Entry & Note) => void) {
    this.#log = log;
    this.#claim = claim;
    this.#hear = hear;
    this.#snapshot = claim.snapshot;
  }

  /** The task as far as this writer has written and read it. */
  get snapshot(): Snapshot {
    return this.#snapshot;
  }

  /** From now on no `put` waits for a store that fails; it throws. */
  giveUp(): void {
    const message =
      'the store does not accept writes and the runner stops; what the run said last is not stored';
    this.#givenUp.abort(new DuolaneError('interrupted', message, { retryable: false }));
  }

  /**
   * Resolves when the batch is durable. A cancel that came first turns its end into canceled, and
   * after the end of the task there is nothing left to write: then it does nothing. Waits
   * for a store that fails for now, until the claim is lost or `giveUp` is called.
   */
  async put(events: readonly AgentEvent[]): Promise<void> {
    for (let tries = 0; ;) {
      const batch = this.#lawfulNow(events);
      if (batch.length === 0) return;
      try {
        await this.#log.append(this.#claim, this.#snapshot.seq, batch);
        for (const event of batch) this.#fold(event);
        return;
      } catch (error) {
        const { code, retryable } = DuolaneError.from(error);
        if (code === 'conflict' || code === 'closed') {
          const { seq } = this.#snapshot;
          if (await this.#readOn(batch.length)) return;
          if (this.#snapshot.seq === seq) throw error;
        } else if (retryable) await this.#pause(tries++);
        else throw error;
      }
    }
  }

  #lawfulNow(events: readonly AgentEvent[]): readonly AgentEvent[] {
    const { state, canceling, running } = this.#snapshot;
    if (events.length === 0 || isFinal(state)) return [];
    // Canceled before the run began: no run starts any more, there is only the end to write.
    const lawful =
      canceling && !running ? recoverRun(this.#snapshot, {}) : rebaseEvents(this.#snapshot, events);
    if (lawful.every((event) => event.at !== undefined)) return lawful;
    const now = Date.now();
    return lawful.map((event) => (event.at === undefined ? { ...event, at: now } : event));
  }

  /**
   * Nobody else writes agent events, so one that follows directly is this very batch, whose
   * acknowledgement was lost. Otherwise a note came first. Waits for a store that fails for now, like
   * `put`, and goes on where it was: what is known of the batch must not be forgotten.
   */
  async #readOn(batch: number): Promise<boolean> {
    const { task, signal } = this.#claim;
    for (let own = 0, tries = 0; ;) {
      try {
        for await (const entry of this.#log.read(task, this.#snapshot.seq, { signal })) {
          this.#snapshot = advance(this.#snapshot, entry);
          tries = 0;
          if (!isNote(entry)) own++;
          else this.#hear(entry as Entry & Note);
          if (own === 0 || own === batch) break;
        }
        return own > 0;
      } catch (error) {
        if (!DuolaneError.from(error).retryable) throw error;
        await this.#pause(tries++);
      }
    }
  }

  #pause(tries: number): Promise<void> {
    const signal = AbortSignal.any([this.#claim.signal, this.#givenUp.signal]);
    return sleep(Math.min(FIRST_PAUSE_MS * 2 ** tries, MAX_PAUSE_MS), signal);
  }

  #fold(event: AgentEvent): void {
    const seq = this.#snapshot.seq + 1;
    this.#snapshot = advance(this.#snapshot, { ...event, seq } as Entry);
  }
}
