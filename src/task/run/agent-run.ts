import type { Answer } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { failOpenCalls, recoverRun } from '../../event/fold/recover-run.ts';
import type { EarlierRuns } from '../../event/run/replay-filter.ts';
import {
  type NormalizedRun,
  type RunHost,
  runNormalized,
} from '../../event/run/normalize-agent.ts';
import type {
  Agent,
  AgentContext,
  AgentEvent,
  AgentStorage,
  Entry,
  Logger,
  Note,
  Snapshot,
  Turn,
} from '../../event/types.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import { WriteCombiner } from './write-combiner.ts';
import { writtenBy, type TextBudget } from '../text-budget.ts';
import { isResumable } from './stored-steps.ts';
import type { Claim, EventUrls, RunListener, RunObserver } from '../types.ts';
import type { TaskWriter } from './task-writer.ts';

export interface RunOptions {
  readonly graceMs: number;
  readonly timeoutMs: number | undefined;
  readonly logger: Logger;
  readonly history: (task: Snapshot, signal: AbortSignal) => AsyncIterable<Snapshot>;
  readonly storage: (
    claim: Claim,
    signal: AbortSignal,
    written: () => Promise<void>,
  ) => AgentStorage;
  /** Reads what the earlier runs of the current turn have stored and shown. */
  readonly earlier: (task: Snapshot, signal: AbortSignal) => Promise<EarlierRuns>;
  readonly eventUrl: EventUrls | undefined;
  readonly observer: RunObserver | undefined;
  readonly textBudget: TextBudget;
  /**
   * Called with 1 when a run begins to wait for a person, and with -1 when it goes on or ends.
   * Returns for how many ms the run may wait before it is suspended.
   */
  readonly onWaiting: (change: 1 | -1) => number;
}

/** One call of an agent for one turn of a claimed task, from its context to its last entry. */
export class AgentRun {
  readonly #agent: Agent;
  readonly #writer: TaskWriter;
  readonly #options: RunOptions;
  readonly #stop = new Cancellation();
  #normalized: NormalizedRun | undefined;
  /** Answers of notes that arrived before the agent was called. */
  readonly #early: Answer[] = [];
  #suspending: NodeJS.Timeout | undefined;
  #isWaiting = false;
  readonly #deadline: RunDeadline;
  #listener: RunListener | undefined;

  constructor(agent: Agent, writer: TaskWriter, options: RunOptions) {
    this.#agent = agent;
    this.#writer = writer;
    this.#options = options;
    this.#deadline = new RunDeadline(options.timeoutMs, () =>
      this.#abort('timeout', `the run timed out after ${options.timeoutMs} ms (timeoutMs)`),
    );
  }

  /** Whether a suspension loses nothing: the run waits for a person, or can be called again. */
  get canSuspend(): boolean {
    return this.#isWaiting || isResumable(this.#agent, this.#writer.snapshot);
  }

  /** Takes a note that another process or request appended to the task. */
  onNote(note: Entry & Note): void {
    if (note.type === 'cancel.requested') {
      this.#options.logger.info('cancel requested', { seq: note.seq });
      this.#listener?.onEvent(note);
      this.#abort('canceled', note.reason ?? 'the task was canceled');
      return;
    }
    for (const answer of note.turn.answers ?? [])
      if (this.#normalized) this.#normalized.answer(answer);
      else this.#early.push(answer);
  }

  suspend(): void {
    this.#abort('suspended', 'the run is suspended; the agent is called again later');
  }

  /**
   * Resolves when the run has ended in the log, or is suspended: the next claim holder calls the
   * agent again. Throws when the claim is lost.
   */
  async serve(turn: Turn, claim: Claim): Promise<'ended' | 'suspended'> {
    let lost: { readonly reason: unknown } | undefined;
    const unfollow = whenAborted(claim, (reason) => {
      lost = { reason };
      this.#stop.abort(reason);
    });
    if (this.#writer.snapshot.canceling) this.#abort('canceled', 'the task was canceled');
    try {
      this.#deadline.start();
      this.#listener = this.#options.observer?.run(turn, this.#writer.snapshot);
      await this.#write(turn, claim);
      // A run that is fenced before its first event ends without one, and without an error.
      if (lost) throw (lost as { readonly reason: unknown }).reason;
      return await this.#finish();
    } finally {
      unfollow();
      clearTimeout(this.#suspending);
      this.#deadline.stop();
      this.#listener?.onEnd();
    }
  }

  async #write(turn: Turn, claim: Claim): Promise<void> {
    const { graceMs, textBudget } = this.#options;
    const put = (events: readonly AgentEvent[]): Promise<void> =>
      textBudget.write(writtenBy(events), () => this.#writer.put(events));
    const combiner = new WriteCombiner(put, (error) => this.#stop.abort(DuolaneError.from(error)));
    const text = textBudget.start(this.#stop);
    try {
      const host = await this.#host(turn, claim, () => combiner.written());
      const run = runNormalized(this.#agent, turn, host, { graceMs });
      this.#normalized = run;
      for (const answer of this.#early.splice(0)) run.answer(answer);
      for await (const event of run) {
        this.#listener?.onEvent(event);
        const room = combiner.push(event);
        const memory = text.add(event);
        if (room) await room;
        if (memory) await memory;
      }
      await combiner.flush();
    } catch (error) {
      const failure = DuolaneError.from(error);
      if (failure.code === 'fenced') throw failure;
      // Suspended before its agent was called, as by a drain: the next claim holder calls it.
      if (!this.#normalized && this.#stop.isAbortedBy('suspended')) return;
      this.#options.logger.error('the run could not be written', { ...failure.toJSON() });
      await this.#writer.put(failed(this.#writer.snapshot, turn, failure));
    } finally {
      text.free();
    }
  }

  // A normalized run omits its end only when it is suspended.
  async #finish(): Promise<'ended' | 'suspended'> {
    const { snapshot } = this.#writer;
    if (!snapshot.running) return 'ended';
    if (snapshot.suspended || isResumable(this.#agent, snapshot)) return 'suspended';
    await this.#writer.put(recoverRun(snapshot, {}));
    return 'ended';
  }

  async #host(turn: Turn, claim: Claim, written: () => Promise<void>): Promise<RunHost> {
    const task = this.#writer.snapshot;
    const { logger, history, storage, eventUrl } = this.#options;
    const isAgain = task.steps !== undefined && task.current?.messageId === turn.messageId;
    const earlier = isAgain ? await this.#options.earlier(task, this.#stop.signal) : undefined;
    const trace = this.#listener?.trace ?? traceOf(turn);
    return {
      task,
      logger,
      stop: this.#stop,
      history: () => history(task, this.#stop.signal),
      storage: storage(claim, this.#stop.signal, written),
      onWaiting: this.#onWaiting,
      written,
      ...(earlier && { earlier }),
      canRunAgain: this.#agent.continues === true && isResumable(this.#agent, task),
      ...(eventUrl && {
        eventUrl: (id, options) => eventUrl({ task: turn.task, turn: turn.messageId, id }, options),
      }),
      ...(trace && { trace }),
    };
  }

  // A person may take any time: meanwhile the deadline is paused, and after `suspendAfterMs` the
  // run is suspended; a run that sleeps for longer than that, immediately.
  readonly #onWaiting = (asks: boolean, restMs = 0): void => {
    const isWaiting = asks && !this.#stop.aborted;
    if (isWaiting === this.#isWaiting) return;
    this.#isWaiting = isWaiting;
    clearTimeout(this.#suspending);
    const suspendAfterMs = this.#options.onWaiting(isWaiting ? 1 : -1);
    if (!isWaiting) return this.#stop.aborted ? undefined : this.#deadline.start();
    this.#deadline.stop();
    const ms = restMs > suspendAfterMs ? 0 : suspendAfterMs;
    this.#suspending = setTimeout(() => this.suspend(), ms);
  };

  #abort(code: 'canceled' | 'suspended' | 'timeout', message: string): void {
    this.#stop.abort(new DuolaneError(code, message));
  }
}

/** The trace context that came with the turn. */
function traceOf({ metadata = {} }: Turn): AgentContext['trace'] {
  const { traceparent, tracestate } = metadata;
  if (typeof traceparent !== 'string') return undefined;
  return { traceparent, ...(typeof tracestate === 'string' && { tracestate }) };
}

/** The end of a run whose own events the log refused. */
function failed(snapshot: Snapshot, turn: Turn, error: DuolaneError): AgentEvent[] {
  const { running, suspended, attempt, calls, text } = snapshot;
  const start = { type: 'run.started', turn: turn.messageId } as const;
  return [
    ...(running ? [] : [start]),
    // A suspended run goes on with its next attempt: the log refuses any other event.
    ...(running && suspended ? [{ ...start, attempt: attempt + 1 }] : []),
    ...failOpenCalls(calls, 'interrupted'),
    { type: 'run.finished', outcome: 'failed', text, error: error.toJSON() },
  ];
}

/** A time limit that can be paused. */
class RunDeadline {
  #restMs: number | undefined;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;
  #since = 0;

  constructor(ms: number | undefined, onEnd: () => void) {
    this.#restMs = ms;
    this.#onEnd = onEnd;
  }

  start(): void {
    if (this.#restMs === undefined || this.#timer) return;
    this.#since = performance.now();
    this.#timer = setTimeout(this.#onEnd, this.#restMs);
  }

  stop(): void {
    if (this.#restMs === undefined || !this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#restMs = Math.max(0, this.#restMs - (performance.now() - this.#since));
  }
}
