import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { raceAbort, settledWithin } from '../../stream/abort.ts';
import { truncateEvent } from '../truncate-event.ts';
import { inheritAgentFlags } from './agent-flags.ts';
import { RunStateMachine } from './run-state-machine.ts';
import { type EarlierRuns, ReplayFilter, withoutRun } from './replay-filter.ts';
import { createContext } from './run-context.ts';
import { StepRunner } from './step-runner.ts';
import type { DurableSteps, StepRecord } from '../step-types.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../types.ts';

export interface NormalizeOptions {
  /**
   * How long an agent may go on after its signal aborted, before it is abandoned; 250 by default.
   */
  readonly graceMs?: number;
}

/**
 * Decorates an agent so that its events keep the nine laws, whatever it does.
 *
 * `run.started` comes first, and `run.finished` last and exactly once, after every block, call and
 * step is closed. The iterator never throws: an error of the agent becomes an outcome, and the text
 * of an `internal` error goes to `ctx.logger` only. When `ctx.signal` aborts, no further delta
 * passes. The run ends when the agent does, at the latest after `graceMs`, as the reason of the
 * signal says: `canceled` as canceled; `timeout` and others as failed; `suspended` as
 * input-required if a question is open, else without an end, since the log hands the run on;
 * `fenced` without an end. `ctx.ask` becomes one `input.required` for each question.
 *
 * The agent is pulled only when the reader pulls; questions and aborts pass meanwhile. A reader
 * that breaks out of the loop stops the agent: its signal aborts, its iterator is returned, and
 * both are awaited for at most `graceMs`. What an abandoned agent yields or throws later is
 * ignored. Every event fits into one entry (`truncateEvent`). `run.started` waits for the agent's
 * first event, so that it can carry the session id.
 *
 * @example
 * ```ts
 * const events: AgentEvent[] = [];
 * for await (const event of normalizeAgent(agent)(turn, context)) events.push(event);
 * checkLaws(events); // []
 * ```
 */
export function normalizeAgent(agent: Agent, options: NormalizeOptions = {}): Agent {
  const normalized = (turn: Turn, ctx: AgentContext): AsyncIterable<AgentEvent> =>
    runNormalized(agent, turn, hostOf(ctx), options);
  return inheritAgentFlags(agent, normalized);
}

const hostOf = (ctx: AgentContext): RunHost => ({
  stop: ctx,
  task: ctx.task,
  logger: ctx.logger,
  history: () => ctx.history(),
  ask: (request, options) => ctx.ask(request, options),
  ...(ctx.storage && { storage: ctx.storage }),
  eventUrl: (id, options) => ctx.eventUrl(id, options),
  // A context that a program made for an earlier version has no steps: they are kept in memory.
  ...(typeof ctx.step === 'function' && { durable: ctx }),
  ...(ctx.trace && { trace: ctx.trace }),
  ...(ctx.blobs && { blobs: ctx.blobs }),
});

/** What a run needs from outside. The run makes the one context of the agent from it. */
export interface RunHost extends Pick<
  AgentContext,
  'task' | 'logger' | 'trace' | 'history' | 'storage' | 'blobs'
> {
  /** Stops the run. */
  readonly stop: Abortable;
  /** Gets the answer to a question. Without it, `NormalizedRun.answer` brings the answers. */
  readonly ask?: Ask;
  /**
   * Called when the agent begins to wait for an answer, a time or an event, and when it goes on. An
   * agent that runs a durable step at the same time does not count as waiting. `restMs`: how long
   * it waits at least, if that is known.
   */
  readonly onWaiting?: (isWaiting: boolean, restMs?: number) => void;
  /** What earlier runs of the turn have stored and shown, if they have stored durable steps. */
  readonly earlier?: EarlierRuns;
  /** Whether an agent that stops early (`suspended`) is called again, to continue from the log. */
  readonly canRunAgain?: boolean;
  /** Resolves when every event that was read so far is durable. Without it, reading is enough. */
  readonly written?: () => Promise<void>;
  /** Durable steps of an outer run, which stores them. */
  readonly durable?: DurableSteps;
  readonly eventUrl?: AgentContext['eventUrl'];
}

/** One run of an agent, with valid events. */
export interface NormalizedRun extends AsyncIterableIterator<AgentEvent, undefined> {
  /** Passes an answer to its question, or an event to its wait, now or when the agent asks it. */
  answer(answer: Answer): void;
}

/** Runs the agent for one turn, as `normalizeAgent` describes it. */
export const runNormalized = (
  agent: Agent,
  turn: Turn,
  host: RunHost,
  { graceMs = 250 }: NormalizeOptions,
): NormalizedRun => new AgentDriver(agent, turn, host, graceMs);

/** After so many pulls in a row, timers, sockets and signals get a turn of the event loop. */
const FAIR_SHARE = 512;

const OVER = new DuolaneError('canceled', 'the run is over: its events are no longer read');

const UNENCODABLE_END: AgentEvent = {
  type: 'run.finished',
  outcome: 'failed',
  text: '',
  error: new DuolaneError('internal', 'the end of the run cannot be encoded as JSON').toJSON(),
};

class AgentDriver implements NormalizedRun {
  readonly #machine: RunStateMachine;
  readonly #stop = new Cancellation();
  readonly #events: AsyncGenerator<AgentEvent, undefined>;
  readonly #agent: Agent;
  readonly #turn: Turn;
  readonly #host: RunHost;
  readonly #graceMs: number;
  #source: AsyncIterator<unknown> | undefined;
  #pulling = false;
  #pulls = 0;
  #out: AgentEvent[] = [];
  #wake = (): void => {};
  #deadline = Infinity;
  /** How many calls of `ask`, `sleep` and `waitFor` wait, and how many steps work. */
  #asking = 0;
  #working = 0;
  #isWaiting = false;
  readonly #steps: StepRunner;
  readonly #replay: ReplayFilter | undefined;
  /** For each record in `#out`, in order: gets the promise that it is durable. */
  readonly #storing: ((written: Promise<void>) => void)[] = [];
  /** The agent has returned or thrown, so its iterator need not be returned. */
  #agentEnded = false;
  /** The reader broke out of its loop. */
  #returned = false;
  /** `run.finished` is in `#out`, or was yielded. */
  #hasEnd = false;

  constructor(agent: Agent, turn: Turn, host: RunHost, graceMs: number) {
    this.#agent = agent;
    this.#turn = turn;
    this.#host = host;
    this.#graceMs = graceMs;
    const { task, logger } = host;
    const continues = agent.continues === true;
    const canSuspend = (): boolean => this.#steps.isWaiting;
    const replayed = continues ? undefined : host.earlier;
    this.#replay = replayed && new ReplayFilter(replayed.seen, task.calls);
    this.#machine = new RunStateMachine({
      turn,
      task: replayed ? withoutRun(task) : task,
      continues,
      logger,
      canSuspend,
      canRunAgain: host.canRunAgain === true,
    });
    this.#steps = new StepRunner({
      task: turn.task,
      turn: turn.messageId,
      stored: host.earlier?.steps ?? new Map(),
      waits: (task.current?.messageId === turn.messageId ? task.waits : undefined) ?? [],
      stop: this.#stop,
      store: (record) => this.#store(record),
      failureOf: (error) => this.#machine.failureOf(error),
      onWaiting: (change) => this.#waits(change, 0),
      onWorking: (change) => this.#waits(0, change),
    });
    this.#events = this.#run();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<AgentEvent, undefined>> {
    return this.#events.next();
  }

  /** May be called while a `next` waits: that one then ends, too. */
  return(): Promise<IteratorResult<AgentEvent, undefined>> {
    this.#returned = true;
    this.#wake();
    return this.#events.return(undefined);
  }

  answer(answer: Answer): void {
    if (!this.#steps.answer(answer)) this.#machine.answer(answer);
  }

  async *#run(): AsyncGenerator<AgentEvent, undefined> {
    let timer: NodeJS.Timeout | undefined;
    const unfollow = whenAborted(this.#host.stop, (given) => {
      const reason = DuolaneError.from(given);
      this.#deadline = performance.now() + this.#graceMs;
      timer = setTimeout(() => this.#emit(this.#machine.end()), this.#graceMs);
      this.#machine.stop(reason);
      this.#stop.abort(reason);
      this.#wake();
    });
    try {
      for (;;) {
        for (const event of this.#takeOut()) {
          yield event;
          // The reader has pulled again, so it has taken the event.
          if (event.type === 'step.stored')
            this.#storing.shift()?.(this.#host.written?.() ?? Promise.resolve());
        }
        if (this.#returned || (this.#machine.ended && this.#out.length === 0)) return undefined;
        if (this.#out.length > 0) continue;
        await this.#untilEvents();
        if (this.#pulls % FAIR_SHARE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      unfollow();
      clearTimeout(timer);
      await this.#returnAgent();
    }
  }

  #takeOut(): AgentEvent[] {
    const out = this.#out;
    this.#out = [];
    return out;
  }

  /** Resolves when there are events to yield, or when the run is stopped or its reader returned. */
  #untilEvents(): Promise<void> {
    const changed = new Promise<void>((resolve) => (this.#wake = resolve));
    if (!this.#pulling) {
      if (this.#stop.aborted && !this.#source) this.#emit(this.#machine.end());
      else this.#pull().catch(reportUnexpected);
    }
    return changed;
  }

  // Calling the agent is inside the `try` too: an agent that throws before its first event, or that
  // is not a generator, fails its run like one that throws later. `await` is used instead of
  // `then`, since an agent may return a promise whose `then` was replaced.
  async #pull(): Promise<void> {
    this.#pulling = true;
    this.#pulls += 1;
    let result: IteratorResult<unknown>;
    try {
      this.#source ??= iteratorOf(
        this.#agent(this.#turn, createContext(this.#host, this.#stop, this.#ask, this.#steps)),
      );
      result = await this.#source.next();
    } catch (error) {
      this.#pulling = false;
      this.#agentEnded = true;
      return this.#fail(error);
    }
    this.#pulling = false;
    this.#take(result);
  }

  #take(result: IteratorResult<unknown>): void {
    const ended = this.#machine.ended;
    try {
      const { done = false, value } = readResult(result);
      this.#agentEnded = done;
      this.#emit(done ? this.#machine.end() : this.#machine.take(value));
    } catch (error) {
      this.#fail(error);
      // The end itself could not be encoded, and the machine does not give a second one.
      if (!ended && !this.#hasEnd && !this.#stop.aborted) this.#emit([UNENCODABLE_END]);
    }
  }

  /** Ends the run with an error. Reading a thrown value may throw again, so that is caught, too. */
  #fail(error: unknown): void {
    try {
      this.#emit(this.#machine.end({ error }));
    } catch (cause) {
      const message = 'the agent threw or yielded a value that cannot be read';
      this.#emit(this.#machine.end({ error: new DuolaneError('internal', message, { cause }) }));
    }
  }

  #emit(events: readonly AgentEvent[]): void {
    const at = Date.now();
    for (const event of events) {
      const stamped = truncateEvent(event.at === undefined ? { ...event, at } : event);
      for (const each of this.#replay?.take(stamped) ?? [stamped]) this.#out.push(each);
      this.#hasEnd ||= event.type === 'run.finished';
    }
    this.#wake();
  }

  /** Emits a record of a step. Resolves when it is durable; a cancel may have replaced it. */
  #store(record: StepRecord): Promise<void> {
    const events = this.#machine.store(record);
    if (events.length === 0) return Promise.reject(this.#stop.reason ?? OVER);
    return new Promise((resolve, reject) => {
      const settle = (): void =>
        this.#stop.isAbortedBy('canceled') ? reject(this.#stop.reason) : resolve();
      this.#storing.push((written) => void written.then(settle, reject));
      this.#emit(events);
    });
  }

  readonly #ask: Ask = (asked, options = {}) => {
    const answer = this.#askOnce(asked, options);
    // Without a handler, a rejection would end the process if the agent does not await the answer.
    answer.catch(() => {});
    return answer;
  };

  async #askOnce(asked: InputRequest, options: Abortable): Promise<Answer> {
    const { signal } = this.#stop;
    signal.throwIfAborted();
    let onAnswer = (_answer: Answer): void => {};
    const answered = new Promise<Answer>((resolve) => (onAnswer = resolve));
    const { request, answer: known, events } = this.#machine.question(asked, onAnswer);
    // The log may have the question under another id than the agent gave it.
    if (known) return { ...known, id: asked.id };
    this.#emit(events);
    const either = options.signal ? AbortSignal.any([signal, options.signal]) : signal;
    this.#waits(1, 0);
    try {
      const answer = await raceAbort(this.#answerOf(request, answered, either), either);
      return { ...answer, id: asked.id };
    } catch (error) {
      // A suspended run keeps its question open. Otherwise this caller no longer waits for it.
      if (DuolaneError.from(error).code !== 'suspended')
        this.#machine.withdraw(request.id, onAnswer);
      throw error;
    } finally {
      this.#waits(-1, 0);
    }
  }

  /** Resolves with the first answer, which another `ask` of the same question may have got. */
  #answerOf(
    request: InputRequest,
    answered: Promise<Answer>,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { ask } = this.#host;
    if (!ask) return answered;
    return new Promise((resolve, reject) => {
      answered.then(resolve, reject);
      ask(request, { signal }).then((answer) => {
        this.#machine.answer({ ...answer, id: request.id });
        resolve(answer);
      }, reject);
    });
  }

  #waits(asking: number, working: number): void {
    this.#asking += asking;
    this.#working += working;
    const isWaiting = this.#asking > 0 && this.#working === 0;
    if (isWaiting === this.#isWaiting) return;
    this.#isWaiting = isWaiting;
    // A question may be answered at any time.
    const isTimed = isWaiting && this.#asking === this.#steps.waits;
    this.#host.onWaiting?.(isWaiting, isTimed ? this.#steps.restMs : undefined);
  }

  async #returnAgent(): Promise<void> {
    this.#stop.abort(OVER);
    const source = this.#source;
    if (!source || this.#agentEnded) return;
    const returned = (async () => source.return?.())().catch((error: unknown) =>
      this.#host.logger.debug(`agent ${this.#turn.agent} failed after its run: ${String(error)}`),
    );
    const restMs = Math.min(this.#graceMs, this.#deadline - performance.now());
    if (restMs > 0) await settledWithin(returned, restMs);
  }
}

function iteratorOf(events: AsyncIterable<unknown>): AsyncIterator<unknown> {
  if (!(events instanceof Promise)) return events[Symbol.asyncIterator]();
  // Without a handler, its rejection would end the process.
  events.catch(() => {});
  throw new DuolaneError(
    'invalid',
    'the agent returned a promise: expected an async iterable; write it as `async function*`',
  );
}

function readResult(result: IteratorResult<unknown>): IteratorResult<unknown> {
  if (typeof result === 'object' && result !== null) return result;
  throw new DuolaneError(
    'invalid',
    'next() of the agent returned no result: expected an object with `done` and `value`',
  );
}
