import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { Cancellation, whenAborted } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import { onAbort } from '../../stream/abort.ts';
import { truncateEvent } from '../truncate-event.ts';
import { RunStateMachine } from './run-state-machine.ts';
import type { Agent, AgentContext, AgentEvent, Turn } from '../types.ts';

export interface NormalizeOptions {
  /** How long an agent may go on after it was told to stop before it is left behind. */
  readonly graceMs?: number;
  /** Stops the run in place of `ctx.signal`, which is then not looked at. */
  readonly stop?: Cancellation;
}

/**
 * The run core, a decorator: the same agent, keeping the nine laws whatever it does.
 *
 * First comes `run.started`, last and exactly once `run.finished`, with every block, call and step
 * closed before. It never throws: what the agent throws is an outcome, and the text of an
 * `internal` error goes to `ctx.logger` only. When `ctx.signal` aborts, deltas stop at once; the
 * run ends when the agent does, at the latest after `graceMs`, as the reason says: `canceled`;
 * `timeout` and others fail; `suspended` ends as input-required if a question is open, else
 * without an end, for the log to hand on; `fenced` says nothing more. `ctx.ask` becomes
 * `input.required`, once per question.
 *
 * The agent is pulled only as the reader pulls; questions and aborts get through meanwhile. A
 * reader that leaves stops the agent too: its signal aborts, its iterator is returned, and both
 * are awaited for at most `graceMs`. What an agent left behind still yields or throws is ignored.
 * Every event fits into one entry (`truncateEvent`). `run.started` waits for the agent's first word, so that
 * it can carry the session id.
 */
export function normalizeAgent(agent: Agent, options: NormalizeOptions = {}): Agent {
  const decorated = (turn: Turn, ctx: AgentContext): AsyncIterable<AgentEvent> =>
    runNormalized(agent, turn, ctx, options);
  const { resumable, continues } = agent;
  return Object.assign(decorated, {
    ...(resumable !== undefined && { resumable }),
    ...(continues !== undefined && { continues }),
  });
}

/** One run of the agent, as `normalizeAgent` makes it keep the laws. */
export const runNormalized = (
  agent: Agent,
  turn: Turn,
  ctx: AgentContext,
  { graceMs = 250, stop }: NormalizeOptions,
): AsyncIterable<AgentEvent> => new NormalizedRun(agent, turn, ctx, graceMs, stop ?? ctx);

/** So many events in a row, and timers, sockets and signals get a turn. */
const FAIR_SHARE = 512;

const OVER = new DuolaneError('canceled', 'the run is over: nobody reads it any more');

const UNENCODABLE_END: AgentEvent = {
  type: 'run.finished',
  outcome: 'failed',
  text: '',
  error: new DuolaneError('internal', 'The agent ended with what cannot be written.').toJSON(),
};

class NormalizedRun implements AsyncIterableIterator<AgentEvent, undefined> {
  readonly #laws: RunStateMachine;
  readonly #stop = new Cancellation();
  readonly #outer: Abortable;
  readonly #events: AsyncGenerator<AgentEvent, undefined>;
  readonly #agent: Agent;
  readonly #turn: Turn;
  readonly #ctx: AgentContext;
  readonly #graceMs: number;
  #source: AsyncIterator<unknown> | undefined;
  #pulling = false;
  #pulls = 0;
  #out: AgentEvent[] = [];
  #wake = (): void => {};
  #deadline = Infinity;
  /** The agent has ended or thrown by itself. */
  #through = false;
  /** The reader has gone. */
  #left = false;
  #saidEnd = false;

  constructor(agent: Agent, turn: Turn, ctx: AgentContext, graceMs: number, outer: Abortable) {
    this.#agent = agent;
    this.#turn = turn;
    this.#ctx = ctx;
    this.#graceMs = graceMs;
    this.#outer = outer;
    const { task, logger } = ctx;
    this.#laws = new RunStateMachine({ turn, task, continues: agent.continues === true, logger });
    this.#events = this.#run();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<AgentEvent, undefined>> {
    return this.#events.next();
  }

  /** Also while a `next` waits: that one then ends, too. */
  return(): Promise<IteratorResult<AgentEvent, undefined>> {
    this.#left = true;
    this.#wake();
    return this.#events.return(undefined);
  }

  async *#run(): AsyncGenerator<AgentEvent, undefined> {
    let timer: NodeJS.Timeout | undefined;
    const unfollow = whenAborted(this.#outer, (given) => {
      const reason = DuolaneError.from(given);
      this.#deadline = performance.now() + this.#graceMs;
      timer = setTimeout(() => this.#say(this.#laws.end()), this.#graceMs);
      this.#laws.stop(reason);
      this.#stop.abort(reason);
      this.#wake();
    });
    try {
      for (;;) {
        for (const event of this.#takeOut()) yield event;
        if (this.#left || (this.#laws.ended && this.#out.length === 0)) return undefined;
        if (this.#out.length > 0) continue;
        await this.#nextThing();
        if (this.#pulls % FAIR_SHARE === 0) await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      unfollow();
      clearTimeout(timer);
      await this.#leave();
    }
  }

  #takeOut(): AgentEvent[] {
    const out = this.#out;
    this.#out = [];
    return out;
  }

  /** Until the agent or a question has something to say, or somebody stops the run. */
  #nextThing(): Promise<void> {
    const changed = new Promise<void>((resolve) => (this.#wake = resolve));
    if (!this.#pulling) {
      if (this.#stop.aborted && !this.#source) this.#say(this.#laws.end());
      else this.#pull().catch(reportUnexpected);
    }
    return changed;
  }

  // An agent that throws at once, or is none, is caught like one that throws later. Only `await` never calls a
  // `then` that somebody has put on a promise.
  async #pull(): Promise<void> {
    this.#pulling = true;
    this.#pulls += 1;
    let result: IteratorResult<unknown>;
    try {
      this.#source ??= iteratorOf(
        this.#agent(this.#turn, new RunContext(this.#ctx, this.#stop, this.#ask)),
      );
      result = await this.#source.next();
    } catch (error) {
      this.#pulling = false;
      this.#through = true;
      return this.#fail(error);
    }
    this.#pulling = false;
    this.#take(result);
  }

  #take(result: IteratorResult<unknown>): void {
    const ended = this.#laws.ended;
    try {
      const { done = false, value } = readResult(result);
      this.#through = done;
      this.#say(done ? this.#laws.end() : this.#laws.take(value));
    } catch (error) {
      this.#fail(error);
      // The end itself was what could not be said.
      if (!ended && !this.#saidEnd && !this.#stop.aborted) this.#say([UNENCODABLE_END]);
    }
  }

  /** What was thrown may throw again when it is looked at; whatever it is, it ends here. */
  #fail(error: unknown): void {
    try {
      this.#say(this.#laws.end({ error }));
    } catch (cause) {
      const message = 'the agent threw or yielded what cannot be read';
      this.#say(this.#laws.end({ error: new DuolaneError('internal', message, { cause }) }));
    }
  }

  #say(events: readonly AgentEvent[]): void {
    const at = Date.now();
    for (const event of events) {
      this.#out.push(truncateEvent(event.at === undefined ? { ...event, at } : event));
      this.#saidEnd ||= event.type === 'run.finished';
    }
    this.#wake();
  }

  readonly #ask: Ask = (asked, options = {}) => {
    const answer = this.#askOnce(asked, options);
    // An agent that does not look at the answer must not bring the process down when it stops.
    answer.catch(() => {});
    return answer;
  };

  async #askOnce(asked: InputRequest, options: Abortable): Promise<Answer> {
    const { signal } = this.#stop;
    signal.throwIfAborted();
    const { request, answer: known, events } = this.#laws.question(asked, false);
    // The log may know the question under another id than its asker does.
    if (known) return { ...known, id: asked.id };
    this.#say(events);
    const either = options.signal ? AbortSignal.any([signal, options.signal]) : signal;
    try {
      const answer = await unlessAborted(this.#ctx.ask(request, { signal: either }), either);
      this.#laws.answered(answer);
      return { ...answer, id: asked.id };
    } catch (error) {
      // Put to sleep, the question stays open; otherwise its asker has given up.
      if (DuolaneError.from(error).code !== 'suspended') this.#laws.forget(request.id);
      throw error;
    }
  }

  async #leave(): Promise<void> {
    this.#stop.abort(OVER);
    const source = this.#source;
    if (!source || this.#through) return;
    const returned = (async () => source.return?.())().catch((error: unknown) =>
      this.#ctx.logger.debug(`agent ${this.#turn.agent} failed after its run: ${String(error)}`),
    );
    const leftMs = Math.min(this.#graceMs, this.#deadline - performance.now());
    if (leftMs > 0) await atMost(returned, leftMs);
  }
}

const STOP = Symbol('stop');

/** One getter for all contexts: each further one would give its object a shape of its own. */
const SIGNAL: PropertyDescriptor = {
  enumerable: true,
  get(this: RunContext) {
    return this[STOP].signal;
  },
};

/**
 * What the agent sees: our signal, which aborts however the run ends and is made when it is looked at, and our `ask`.
 * A copy has them too, and so has whatever is made of it. A class, since shapes, with all that hangs on them, live until
 * a full collection.
 */
class RunContext implements AgentContext {
  declare readonly signal: AbortSignal;
  readonly ask: Ask;
  readonly task: AgentContext['task'];
  readonly history: AgentContext['history'];
  readonly logger: AgentContext['logger'];
  declare readonly trace?: NonNullable<AgentContext['trace']>;
  readonly [STOP]: Cancellation;

  constructor(ctx: AgentContext, stop: Cancellation, ask: Ask) {
    const { task, logger, trace } = ctx;
    this.ask = ask;
    this.task = task;
    this.history = () => ctx.history();
    this.logger = logger;
    this[STOP] = stop;
    if (trace) this.trace = trace;
    Object.defineProperty(this, 'signal', SIGNAL);
  }
}

function iteratorOf(events: AsyncIterable<unknown>): AsyncIterator<unknown> {
  if (!(events instanceof Promise)) return events[Symbol.asyncIterator]();
  // Without an owner its rejection would end the process.
  events.catch(() => {});
  throw new DuolaneError(
    'invalid',
    'the agent is no async iterable: it gave a promise; write it as `async function*`',
  );
}

function readResult(result: IteratorResult<unknown>): IteratorResult<unknown> {
  if (typeof result === 'object' && result !== null) return result;
  throw new DuolaneError('invalid', 'the agent is no async iterable: its next() gave no result');
}

async function atMost(work: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  await Promise.race([work, late]);
  clearTimeout(timer);
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, reject);
    work.then(resolve, reject).finally(unlisten);
  });
}
