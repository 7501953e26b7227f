import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { raceAbort, settledWithin } from '../../stream/abort.ts';
import { truncateEvent } from '../truncate-event.ts';
import { inheritAgentFlags } from './agent-flags.ts';
import { RunStateMachine } from './run-state-machine.ts';
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
  ...(ctx.trace && { trace: ctx.trace }),
  ...(ctx.blobs && { blobs: ctx.blobs }),
});

/** What a run needs from outside. The run makes the one context of the agent from it. */
export interface RunHost extends Pick<
  AgentContext,
  'task' | 'logger' | 'trace' | 'history' | 'blobs'
> {
  /** Stops the run. */
  readonly stop: Abortable;
  /** Gets the answer to a question. Without it, `NormalizedRun.answer` brings the answers. */
  readonly ask?: Ask;
  /** Called when the first `ask` of the agent begins to wait, and when none waits any more. */
  readonly onWaiting?: (isWaiting: boolean) => void;
}

/** One run of an agent, with valid events. */
export interface NormalizedRun extends AsyncIterableIterator<AgentEvent, undefined> {
  /** Passes a person's answer to the question that it is for, now or when the agent asks it. */
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
  /** How many calls of `ask` wait for an answer. */
  #asking = 0;
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
    this.#machine = new RunStateMachine({ turn, task, continues, logger });
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
    this.#machine.answer(answer);
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
        for (const event of this.#takeOut()) yield event;
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
        this.#agent(this.#turn, new RunContext(this.#host, this.#stop, this.#ask)),
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
      this.#out.push(truncateEvent(event.at === undefined ? { ...event, at } : event));
      this.#hasEnd ||= event.type === 'run.finished';
    }
    this.#wake();
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
    this.#waits(1);
    try {
      const answer = await raceAbort(this.#answerOf(request, answered, either), either);
      return { ...answer, id: asked.id };
    } catch (error) {
      // A suspended run keeps its question open. Otherwise this caller no longer waits for it.
      if (DuolaneError.from(error).code !== 'suspended')
        this.#machine.withdraw(request.id, onAnswer);
      throw error;
    } finally {
      this.#waits(-1);
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

  #waits(change: 1 | -1): void {
    this.#asking += change;
    if (this.#asking === (change === 1 ? 1 : 0)) this.#host.onWaiting?.(change === 1);
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

const STOP = Symbol('stop');

/** One getter for all contexts: a getter made for each would give each object its own shape. */
const SIGNAL: PropertyDescriptor = {
  enumerable: true,
  get(this: RunContext) {
    return this[STOP].signal;
  },
};

/**
 * The context that the agent gets. Its signal aborts however the run ends, and is created on first
 * access. `signal` and `ask` are own properties, so that a copy of the context has them, too. It is
 * a class because V8 keeps a shape, and everything that it refers to, until a full collection.
 */
class RunContext implements AgentContext {
  declare readonly signal: AbortSignal;
  readonly ask: Ask;
  readonly task: AgentContext['task'];
  readonly history: AgentContext['history'];
  readonly logger: AgentContext['logger'];
  declare readonly trace?: NonNullable<AgentContext['trace']>;
  declare readonly blobs?: NonNullable<AgentContext['blobs']>;
  readonly [STOP]: Cancellation;

  constructor(host: RunHost, stop: Cancellation, ask: Ask) {
    const { task, logger, trace, blobs } = host;
    this.ask = ask;
    this.task = task;
    this.history = () => host.history();
    this.logger = logger;
    this[STOP] = stop;
    if (trace) this.trace = trace;
    if (blobs) this.blobs = blobs;
    Object.defineProperty(this, 'signal', SIGNAL);
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
