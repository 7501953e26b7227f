import { DuolaneError } from '../../errors.ts';
import { isFinal } from '../../event/index.ts';
import { rebaseEvents, recoverRun } from '../../event/fold/recover-run.ts';
import type { AgentEvent, Entry, Note, Snapshot } from '../../event/types.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import { sleep } from '../../stream/index.ts';
import { CheckpointFold, checkpointNumber, encodeCheckpoint } from '../log/checkpoints.ts';
import { isNote } from '../store/line-codec.ts';
import type { Claim, TaskLog } from '../types.ts';

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 5000;

/**
 * Writes a claimed task. Each batch is appended exactly once and in order, although notes may be
 * appended in between and acknowledgements may be lost; or `put` throws, and nothing more may be
 * written. Call one `put` at a time.
 */
export class TaskWriter {
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #onNote: (note: Entry & Note) => void;
  readonly #givenUp = new Cancellation();
  readonly #fold: CheckpointFold;
  /** The number of the last checkpoint. */
  #checkpoint: number;

  /** `onNote` gets each note that a batch ran into; the claim may have passed it on before. */
  constructor(log: TaskLog, claim: Claim, onNote: (note: Entry & Note) => void) {
    this.#log = log;
    this.#claim = claim;
    this.#onNote = onNote;
    this.#fold = new CheckpointFold(claim.snapshot);
    // The writer before this one could store none behind its last batch, which ended its claim.
    this.#checkpoint = checkpointNumber((claim.snapshot.mark?.from ?? 1) - 1);
  }

  /** The task up to the last entry that this writer has written or read. */
  get snapshot(): Snapshot {
    return this.#fold.snapshot;
  }

  /** From now on `put` throws instead of waiting for a store that fails. */
  giveUp(): void {
    const message =
      'the store does not accept writes and the runner is draining; the last events of the run are lost';
    this.#givenUp.abort(new DuolaneError('interrupted', message, { retryable: false }));
  }

  /**
   * Resolves when the batch is durable. A cancel that was appended first turns the end of the run
   * into canceled. After the end of the task, `put` does nothing. While the store fails with a
   * retryable error, `put` waits, until the claim is lost or `giveUp` is called.
   */
  async put(events: readonly AgentEvent[]): Promise<void> {
    for (let tries = 0; ;) {
      const batch = this.#rebased(events);
      if (batch.length === 0) return;
      this.#saveCheckpoint();
      try {
        await this.#log.append(this.#claim, this.snapshot.seq, batch);
        for (const event of batch) this.#advance(event);
        return;
      } catch (error) {
        const { code, retryable } = DuolaneError.from(error);
        if (code === 'conflict' || code === 'closed') {
          const { seq } = this.snapshot;
          if (await this.#readOn(batch.length)) return;
          if (this.snapshot.seq === seq) throw error;
        } else if (retryable) await this.#pause(tries++);
        else throw error;
      }
    }
  }

  #rebased(events: readonly AgentEvent[]): readonly AgentEvent[] {
    const { state, canceling, running } = this.snapshot;
    if (events.length === 0 || isFinal(state)) return [];
    // The cancel came before the run began: no run starts, and only the end is written.
    const rebased =
      canceling && !running ? recoverRun(this.snapshot, {}) : rebaseEvents(this.snapshot, events);
    if (rebased.every((event) => event.at !== undefined)) return rebased;
    const now = Date.now();
    return rebased.map((event) => (event.at === undefined ? { ...event, at: now } : event));
  }

  /**
   * Reads the entries after the last known one. Only this writer appends agent events, so an agent
   * event found there is of this batch, whose acknowledgement was lost: returns true. Otherwise a
   * note came first. Waits for a store that fails, like `put`, and goes on where it was: forgetting
   * that a part of the batch was found would append the batch twice.
   */
  async #readOn(batch: number): Promise<boolean> {
    const { task, signal } = this.#claim;
    for (let own = 0, tries = 0; ;) {
      try {
        for await (const entry of this.#log.read(task, this.snapshot.seq, { signal })) {
          this.#fold.advance(entry);
          tries = 0;
          if (!isNote(entry)) own++;
          else this.#onNote(entry as Entry & Note);
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

  #advance(event: AgentEvent): void {
    this.#fold.advance({ ...event, seq: this.snapshot.seq + 1 } as Entry);
  }

  /** Stores a checkpoint for readers from time to time, before a batch that may end the claim. */
  #saveCheckpoint(): void {
    const number = checkpointNumber(this.snapshot.seq);
    const checkpoint = number > this.#checkpoint ? this.#fold.checkpoint() : undefined;
    if (!checkpoint) return;
    this.#checkpoint = number;
    const value = encodeCheckpoint(checkpoint);
    // If it cannot be stored, readers begin at an earlier one.
    if (value) this.#log.setValues(this.#claim, [value]).catch(() => {});
  }
}
