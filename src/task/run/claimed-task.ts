import { DuolaneError } from '../../errors.ts';
import { isFinal } from '../../event/index.ts';
import { nextTurn } from '../../event/fold/advance.ts';
import { recoverRun } from '../../event/fold/recover-run.ts';
import type { Agent, Entry, Note, Turn } from '../../event/types.ts';
import type { Claim, TaskLog } from '../types.ts';
import { AgentRun, type RunOptions } from './agent-run.ts';
import { isResumable } from './stored-steps.ts';
import { TaskWriter } from './task-writer.ts';

/** A claimed task, until it has ended, waits for a person, or is released. */
export class ClaimedTask {
  readonly done: Promise<void>;
  readonly #log: TaskLog;
  readonly #claim: Claim;
  readonly #agent: Agent;
  readonly #options: RunOptions;
  readonly #writer: TaskWriter;
  readonly #maxAttempts: number;
  readonly #pause: () => Promise<void>;
  #run: AgentRun | undefined;
  #draining: NodeJS.Timeout | undefined;
  #writing: NodeJS.Timeout | undefined;

  /** `pause` is awaited before a task that was given up is released. */
  constructor(
    log: TaskLog,
    claim: Claim,
    agent: Agent,
    options: RunOptions,
    maxAttempts: number,
    pause: () => Promise<void>,
  ) {
    this.#pause = pause;
    this.#log = log;
    this.#claim = claim;
    this.#agent = agent;
    this.#options = options;
    this.#maxAttempts = maxAttempts;
    this.#writer = new TaskWriter(log, claim, (note) => this.#onNote(note));
    this.done = this.#serve();
  }

  /**
   * Starts no further turn. The run is suspended now if that loses nothing; otherwise it has
   * `graceMs` to end. After that its agent has `graceMs` to stop, and the store `graceMs` to accept
   * the last events: the drain does not wait for a store that fails, as with a full disk. The next
   * claim holder ends the run or resumes it.
   */
  drain(graceMs: number): void {
    if (this.#draining) return;
    const suspendMs = this.#run?.canSuspend ? 0 : graceMs;
    this.#draining = setTimeout(() => this.#run?.suspend(), suspendMs);
    this.#writing = setTimeout(() => this.#writer.giveUp(), suspendMs + 2 * graceMs);
  }

  async #serve(): Promise<void> {
    const { task, epoch } = this.#claim;
    try {
      // Let the submit resolve before the agent runs: a synchronous agent would delay it.
      await new Promise((resolve) => setImmediate(resolve));
      // A suspended task is claimed only when one of its waits is over, by the clock of the store.
      // After the first write here, only an answer ends a wait: the store frees the claim of a task
      // that waits for a time, and an agent must not be called without a claim.
      const now = (await this.#recover()) ? 0 : Infinity;
      for (let turn = this.#next(now); turn; turn = this.#next(0)) {
        const isFirst = this.#run === undefined;
        this.#run = new AgentRun(this.#agent, this.#writer, this.#options);
        // The claim has kept the notes that arrived before this listener.
        if (isFirst) this.#claim.onNote((note) => this.#onNote(note));
        if ((await this.#run.serve(turn, this.#claim)) === 'suspended') break;
      }
    } catch (error) {
      const failure = DuolaneError.from(error).toJSON();
      const level = failure.code === 'fenced' ? 'info' : 'error';
      this.#options.logger[level]('gave up a task', { task, epoch, ...failure });
      if (failure.code !== 'fenced') await this.#pause();
    } finally {
      // If the task has ended or waits, its claim is over, and this does nothing. If the release
      // fails, the lease expires.
      await this.#log.release(this.#claim).catch(() => {});
      // Clear the timers last: a drain may start during the release, and its timers would keep the
      // process alive.
      clearTimeout(this.#draining);
      clearTimeout(this.#writing);
    }
  }

  /**
   * Ends or continues a run whose claim holder is gone: a run cannot be open at this point. Returns
   * whether something was written.
   */
  async #recover(): Promise<boolean> {
    const { snapshot } = this.#writer;
    // An agent that makes progress between its crashes is called again as often as it takes. A
    // finished model step is progress only if the agent does not start over.
    const finished = this.#agent.continues ? (snapshot.mark?.attempt ?? 0) : 0;
    const attempts = snapshot.attempt - Math.max(snapshot.steps?.attempt ?? 0, finished);
    const resumable = isResumable(this.#agent, snapshot) && attempts < this.#maxAttempts;
    const events = recoverRun(snapshot, { resumable, continues: this.#agent.continues === true });
    await this.#writer.put(events);
    return events.length > 0;
  }

  #next(now: number): Turn | undefined {
    const { snapshot } = this.#writer;
    return this.#draining || isFinal(snapshot.state) ? undefined : nextTurn(snapshot, now);
  }

  #onNote(note: Entry & Note): void {
    this.#run?.onNote(note);
  }
}
