import type { Snapshot, TaskEvent, Turn, Usage } from '../event/types.ts';
import type { RunListener, RunObserver } from '../task/types.ts';
import { type Instrument, type Labels, type Meter, METRICS, type Metric } from './meter.ts';

/**
 * How many turns are remembered with their request time until their run begins, which may be
 * elsewhere.
 */
const MAX_REQUESTS = 10_000;
/** How many series are kept bound; a model may invent any number of tool names. */
const MAX_BOUND = 500;

/** Options of `observeRuns`. */
export interface ObserveOptions {
  /** A monotonic clock, in ms. */
  readonly now?: () => number;
}

/**
 * Measures the runs of a runner: pass it as `observer`. Times are those of a monotonic clock. The
 * time of the request is when its turn was submitted here, or the time of the turn itself if that
 * was elsewhere.
 */
export function observeRuns(
  meter: Meter,
  { now = () => performance.now() }: ObserveOptions = {},
): RunObserver {
  const requests = new Map<string, { readonly at: number; readonly agent: string }>();
  const agents = new Map<string, AgentMeter>();
  const meterOf = (agent: string): AgentMeter => {
    const known = agents.get(agent) ?? new AgentMeter(meter, agent);
    agents.set(agent, known);
    return known;
  };
  const take = (key: string): number | undefined => {
    const request = requests.get(key);
    if (!request) return undefined;
    requests.delete(key);
    meterOf(request.agent).get(METRICS.waitingTurns)(-1);
    return request.at;
  };
  return {
    submitted({ agent, task, messageId, parts }) {
      if (parts.length === 0) return; // Answers alone do not begin a run.
      const [oldest] = requests.size >= MAX_REQUESTS ? requests.keys() : [];
      if (oldest !== undefined) take(oldest);
      const key = `${task}/${messageId}`;
      if (requests.has(key)) return;
      requests.set(key, { at: now(), agent });
      meterOf(agent).get(METRICS.waitingTurns)(1);
    },
    run(turn, task) {
      const startedAt = now();
      const since = Math.max(0, Date.now() - task.updatedAt);
      const requestedAt = take(`${task.task}/${turn.messageId}`) ?? startedAt - since;
      return new RunMeter(meterOf(turn.agent), now, requestedAt, startedAt);
    },
  };
}

/** The series of one agent; each is bound when it is first used. */
class AgentMeter {
  readonly #meter: Meter;
  readonly #agent: string;
  readonly #bound = new Map<Metric, Map<string, Instrument>>();

  constructor(meter: Meter, agent: string) {
    this.#meter = meter;
    this.#agent = agent;
  }

  get(metric: Metric, key = '', labels: Labels = {}): Instrument {
    const all = this.#bound.get(metric) ?? new Map<string, Instrument>();
    if (all.size === 0) this.#bound.set(metric, all);
    const known = all.get(key);
    if (known) return known;
    const bound = this.#meter.bind(metric, { agent: this.#agent, ...labels });
    if (all.size < MAX_BOUND) all.set(key, bound);
    return bound;
  }
}

/** The times of one model call, as far as its step reports them. */
export interface MeasuredStep {
  readonly startedAt: number;
  firstAt?: number;
}

/**
 * When the model was called. Some agents report a step when it begins, others when its first chunk
 * has arrived; a duration that they report is exact.
 */
export const callTime = (
  { startedAt, firstAt = startedAt }: MeasuredStep,
  firstMs?: number,
): number => (firstMs === undefined ? startedAt : Math.min(startedAt, firstAt - firstMs));

class RunMeter implements RunListener {
  readonly #meter: AgentMeter;
  readonly #now: () => number;
  readonly #requestedAt: number;
  readonly #startedAt: number;
  readonly #tools = new Map<string, number>();
  #step: MeasuredStep | undefined;
  #hasText = false;
  #connected = false;
  #canceledAt: number | undefined;

  constructor(meter: AgentMeter, now: () => number, requestedAt: number, startedAt: number) {
    this.#meter = meter;
    this.#now = now;
    this.#requestedAt = requestedAt;
    this.#startedAt = startedAt;
    meter.get(METRICS.activeRuns)(1);
    this.#record(METRICS.queued, startedAt - requestedAt);
  }

  onEvent(event: TaskEvent): void {
    if (event.type === 'cancel.requested') {
      if (this.#canceledAt === undefined) this.#meter.get(METRICS.cancels)(1);
      this.#canceledAt ??= this.#now();
      return;
    }
    if (event.type === 'turn.submitted') return;
    this.#meter.get(METRICS.events, event.type, { type: event.type })(1);
    const inner = event.path !== undefined && event.path.length > 0;
    switch (event.type) {
      case 'step.started':
        if (!inner) this.#step = { startedAt: this.#now() };
        return;
      case 'step.finished':
        if (!inner) this.#stepFinished(event.firstChunkMs);
        return;
      case 'text.delta':
      case 'reasoning.delta':
      case 'tool.started':
        if (!inner) this.#onChunk(event.type === 'text.delta');
        return;
      case 'retry':
        this.#meter.get(METRICS.retries, event.error.code, { code: event.error.code })(1);
        return;
      case 'tool.called':
        this.#tools.set(event.callId, this.#now());
        return;
      case 'tool.completed':
        return this.#toolEnded(event, 'completed');
      case 'tool.failed':
        return this.#toolEnded(event, event.error.code);
      case 'run.finished':
        return this.#finished(event.outcome, event.usage);
      default:
        return;
    }
  }

  onEnd(): void {
    this.#meter.get(METRICS.activeRuns)(-1);
  }

  #record(metric: Metric, ms: number, key = '', labels: Labels = {}): void {
    this.#meter.get(metric, key, labels)(Math.max(0, ms) / 1000);
  }

  #onChunk(isText: boolean): void {
    const step = this.#step;
    const first = step !== undefined && step.firstAt === undefined;
    if (!first && (this.#hasText || !isText)) return;
    const now = this.#now();
    if (first) step.firstAt = now;
    if (this.#hasText || !isText) return;
    this.#hasText = true;
    this.#record(METRICS.firstToken, now - this.#requestedAt);
  }

  #stepFinished(firstMs: number | undefined): void {
    const step = this.#step;
    if (!step) return;
    this.#step = undefined;
    const { startedAt, firstAt } = step;
    const calledAt = callTime(step, firstMs);
    const first = firstMs ?? (firstAt === undefined ? undefined : firstAt - startedAt);
    if (first !== undefined) this.#record(METRICS.modelFirstToken, first);
    this.#record(METRICS.modelCall, this.#now() - calledAt);
    if (!this.#connected) this.#record(METRICS.connect, calledAt - this.#startedAt);
    this.#connected = true;
  }

  #toolEnded(
    { callId, name, ms }: { readonly callId: string; readonly name: string; readonly ms?: number },
    outcome: string,
  ): void {
    const calledAt = this.#tools.get(callId);
    this.#tools.delete(callId);
    const took = ms ?? (calledAt === undefined ? undefined : this.#now() - calledAt);
    if (took === undefined) return;
    this.#record(METRICS.toolCall, took, `${name}\0${outcome}`, { tool: name, outcome });
  }

  #finished(outcome: string, usage: Usage = {}): void {
    const now = this.#now();
    this.#record(METRICS.run, now - this.#startedAt, outcome, { outcome });
    if (this.#canceledAt !== undefined) this.#record(METRICS.cancel, now - this.#canceledAt);
    for (const [field, type] of TOKENS) {
      const tokens = usage[field];
      if (tokens !== undefined) this.#meter.get(METRICS.tokens, type, { type })(tokens);
    }
  }
}

const TOKENS = [
  ['inputTokens', 'input'],
  ['outputTokens', 'output'],
  ['reasoningTokens', 'reasoning'],
  ['cacheReadTokens', 'cache_read'],
  ['cacheWriteTokens', 'cache_write'],
] as const;

/** Combines several observers into one. The last one with a trace of its own provides the trace. */
export function observeAll(observers: readonly RunObserver[]): RunObserver {
  return {
    submitted(turn: Turn) {
      for (const observer of observers) observer.submitted?.(turn);
    },
    run(turn: Turn, task: Snapshot): RunListener {
      const listeners = observers.map((observer) => observer.run(turn, task));
      const trace = listeners.findLast((listener) => listener.trace)?.trace;
      return {
        ...(trace && { trace }),
        onEvent(event) {
          for (const listener of listeners) listener.onEvent(event);
        },
        onEnd() {
          for (const listener of listeners) listener.onEnd();
        },
      };
    },
  };
}
