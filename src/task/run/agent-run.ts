import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { failOpenCalls, recoverRun } from '../../event/index.ts';
import { runNormalized } from '../../event/run/normalize-agent.ts';
import type {
  Agent,
  AgentContext,
  AgentEvent,
  Entry,
  Logger,
  Note,
  Snapshot,
  Turn,
} from '../../event/types.ts';
import { onAbort } from '../../stream/abort.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import { WriteCombiner } from './write-combiner.ts';
import { writtenBy, type HeldText } from '../held-text.ts';
import type { Claim, RunListener, RunObserver } from '../types.ts';
import type { TaskWriter } from './task-writer.ts';

export interface RunOptions {
  readonly graceMs: number;
  readonly timeoutMs: number | undefined;
  readonly logger: Logger;
  readonly history: (task: Snapshot) => AsyncIterable<Snapshot>;
  readonly observer: RunObserver | undefined;
  readonly held: HeldText;
  /** Told when a run begins to wait for a person (1), and when it goes on or ends (-1). Says for how long it may. */
  readonly onWaiting: (change: 1 | -1) => number;
}

/** One call of an agent for one turn of a claimed task, from its context to its last entry. */
export class AgentRun {
  readonly #agent: Agent;
  readonly #writer: TaskWriter;
  readonly #options: RunOptions;
  readonly #stop = new Cancellation();
  /** By question: every `ask` that waits for its answer. Parallel calls may ask the same. */
  readonly #asked = new Map<string, Set<(answer: Answer) => void>>();
  /** Answers that were heard before the agent asked again. */
  readonly #early = new Map<string, Answer>();
  #parking: NodeJS.Timeout | undefined;
  #waits = false;
  readonly #deadline: Deadline;
  #ear: RunListener | undefined;

  constructor(agent: Agent, writer: TaskWriter, options: RunOptions) {
    this.#agent = agent;
    this.#writer = writer;
    this.#options = options;
    this.#deadline = new Deadline(options.timeoutMs, () =>
      this.#abort('timeout', `the run took longer than ${options.timeoutMs} ms`),
    );
  }

  /** Whether putting it to sleep loses nothing: it waits for a person, or can be called again. */
  get canSuspend(): boolean {
    return this.#asked.size > 0 || this.#agent.resumable === true;
  }

  hear(note: Entry & Note): void {
    if (note.type === 'cancel.requested') {
      this.#options.logger.info('cancel requested', { seq: note.seq });
      this.#ear?.onEvent(note);
      this.#abort('canceled', note.reason ?? 'the task was canceled');
      return;
    }
    for (const answer of note.turn.answers ?? []) this.#answer(answer);
  }

  suspend(): void {
    this.#abort('suspended', 'the run is put to sleep; it is called again');
  }

  /**
   * Resolves when the run has ended in the log, or is to be called again by whoever claims the task
   * next (`sleeps`). Throws when the claim is lost.
   */
  async serve(turn: Turn, claim: Claim): Promise<'ended' | 'sleeps'> {
    let lost: { readonly reason: unknown } | undefined;
    const unfollow = whenAborted(claim, (reason) => {
      lost = { reason };
      this.#stop.abort(reason);
    });
    if (this.#writer.snapshot.canceling) this.#abort('canceled', 'the task was canceled');
    try {
      this.#deadline.start();
      this.#ear = this.#options.observer?.run(turn, this.#writer.snapshot);
      await this.#write(turn);
      // A run that was fenced before its first word ended without one.
      if (lost) throw (lost as { readonly reason: unknown }).reason;
      return await this.#finish();
    } finally {
      unfollow();
      clearTimeout(this.#parking);
      this.#deadline.stop();
      this.#ear?.onEnd();
    }
  }

  async #write(turn: Turn): Promise<void> {
    const { graceMs, held } = this.#options;
    const put = (events: readonly AgentEvent[]): Promise<void> =>
      held.write(writtenBy(events), () => this.#writer.put(events));
    const combiner = new WriteCombiner(put, (error) => this.#stop.abort(DuolaneError.from(error)));
    const stop = this.#stop;
    const text = held.start(stop);
    try {
      const context = this.#context(turn);
      const events = runNormalized(this.#agent, turn, context, { graceMs, stop });
      for await (const event of events) {
        this.#ear?.onEvent(event);
        const room = combiner.push(event);
        const memory = text.add(event);
        if (room) await room;
        if (memory) await memory;
      }
      await combiner.flush();
    } catch (error) {
      const failure = DuolaneError.from(error);
      if (failure.code === 'fenced') throw failure;
      this.#options.logger.error('the run could not be written', { ...failure.toJSON() });
      await this.#writer.put(failed(this.#writer.snapshot, turn, failure));
    } finally {
      text.free();
    }
  }

  // A lawful run leaves its end out only when it was put to sleep.
  async #finish(): Promise<'ended' | 'sleeps'> {
    const { snapshot } = this.#writer;
    if (!snapshot.running) return 'ended';
    if (this.#agent.resumable === true) return 'sleeps';
    await this.#writer.put(recoverRun(snapshot, {}));
    return 'ended';
  }

  #context(turn: Turn): AgentContext {
    const trace = this.#ear?.trace ?? traceOf(turn);
    const ask: Ask = (request, options) => this.#ask(request, options?.signal);
    return new TaskRunContext(this.#writer.snapshot, this.#stop, ask, this.#options, trace);
  }

  #ask({ id }: InputRequest, signal?: AbortSignal): Promise<Answer> {
    const known =
      this.#writer.snapshot.answers.find((answer) => answer.id === id) ?? this.#early.get(id);
    if (known) return Promise.resolve(known);
    if (this.#stop.aborted) return Promise.reject(DuolaneError.from(this.#stop.reason));
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((resolve, reject) => {
      const waiting = this.#asked.get(id) ?? new Set();
      const settle = (answer: Answer): void => (leave(), resolve(answer));
      const leave = (): void => {
        waiting.delete(settle);
        if (waiting.size === 0 && this.#asked.get(id) === waiting) this.#asked.delete(id);
        for (const off of unlisten) off();
        this.#waitingChanged();
      };
      const give = (reason: unknown): void => (leave(), reject(reason));
      const unlisten = [this.#stop.onAbort(give), onAbort(signal, give)];
      this.#asked.set(id, waiting.add(settle));
      this.#waitingChanged();
    });
  }

  #answer(answer: Answer): void {
    const asked = this.#asked.get(answer.id);
    if (asked) for (const settle of asked) settle(answer);
    else if (this.#writer.snapshot.pending.some(({ id }) => id === answer.id))
      this.#early.set(answer.id, answer);
  }

  // A person may take any time: the deadline stands still, and after `parkMs` the run sleeps.
  #waitingChanged(): void {
    const waits = this.#asked.size > 0 && !this.#stop.aborted;
    if (waits === this.#waits) return;
    this.#waits = waits;
    clearTimeout(this.#parking);
    const parkMs = this.#options.onWaiting(waits ? 1 : -1);
    if (!waits) return this.#stop.aborted ? undefined : this.#deadline.start();
    this.#deadline.stop();
    this.#parking = setTimeout(() => this.suspend(), parkMs);
  }

  #abort(code: 'canceled' | 'suspended' | 'timeout', message: string): void {
    this.#stop.abort(new DuolaneError(code, message));
  }
}

/** What `lawful` makes the agent's context of. A class, since a getter in a literal gives every object a shape of its own. */
class TaskRunContext implements AgentContext {
  readonly task: Snapshot;
  readonly ask: Ask;
  readonly logger: Logger;
  readonly trace?: NonNullable<AgentContext['trace']>;
  readonly #stop: Cancellation;
  readonly #history: RunOptions['history'];

  constructor(
    task: Snapshot,
    stop: Cancellation,
    ask: Ask,
    { logger, history }: RunOptions,
    trace: AgentContext['trace'],
  ) {
    this.task = task;
    this.ask = ask;
    this.logger = logger;
    if (trace) this.trace = trace;
    this.#stop = stop;
    this.#history = history;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  history(): AsyncIterable<Snapshot> {
    return this.#history(this.task);
  }
}

/** What came with the turn. */
function traceOf({ metadata = {} }: Turn): AgentContext['trace'] {
  const { traceparent, tracestate } = metadata;
  if (typeof traceparent !== 'string') return undefined;
  return { traceparent, ...(typeof tracestate === 'string' && { tracestate }) };
}

/** The end of a run whose own events the log refused. */
function failed({ running, calls, text }: Snapshot, turn: Turn, error: DuolaneError): AgentEvent[] {
  return [
    ...(running ? [] : [{ type: 'run.started', turn: turn.messageId } as const]),
    ...failOpenCalls(calls, 'interrupted'),
    { type: 'run.finished', outcome: 'failed', text, error: error.toJSON() },
  ];
}

/** A time limit that can stand still. */
class Deadline {
  #leftMs: number | undefined;
  readonly #onEnd: () => void;
  #timer: NodeJS.Timeout | undefined;
  #since = 0;

  constructor(ms: number | undefined, onEnd: () => void) {
    this.#leftMs = ms;
    this.#onEnd = onEnd;
  }

  start(): void {
    if (this.#leftMs === undefined || this.#timer) return;
    this.#since = performance.now();
    this.#timer = setTimeout(this.#onEnd, this.#leftMs);
  }

  stop(): void {
    if (this.#leftMs === undefined || !this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - this.#since));
  }
}
