import type { Answer } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { Seq, Usage } from './types.ts';

/** What the function of a durable step gets. */
export interface StepContext {
  /** Aborts when the run must end, like that of the agent. */
  readonly signal: AbortSignal;
  /**
   * The same for every attempt of this step, in every process: made of task, turn and step id. Pass
   * it to the system that you call as its idempotency key, so that a repeated call has one effect.
   */
  readonly key: string;
  /** Counts from 1, over all processes. An attempt that crashed is not counted. */
  readonly attempt: number;
}

/** How often a failed step is run again. */
export interface StepRetry {
  /** How many attempts a step has in total. */
  readonly attempts: number;
  /** The delays: `firstMs` (1 s), then `factor` (2) times longer, up to `maxMs` (60 s). */
  readonly backoff?: {
    readonly firstMs?: number;
    readonly factor?: number;
    readonly maxMs?: number;
  };
}

export interface StepOptions {
  /** Without it, a step has one attempt. */
  readonly retry?: StepRetry;
  /**
   * With `false`, the last failure is not stored: it is thrown as it is, and the step runs again
   * when it is called again. For calls that another layer retries, such as those of a model.
   */
  readonly storeFailure?: boolean;
}

export interface WaitForOptions {
  /** JSON Schema of the event's data. Not every way of delivery checks it. */
  readonly schema?: JsonObject;
  /** How long to wait, over all processes. After it, the step fails with `timeout`. */
  readonly timeoutMs?: number;
  /** Ends the wait here. A wait that no code awaits any more could otherwise suspend the run. */
  readonly signal?: AbortSignal;
}

/** Durable steps and waits. An agent gets them with its context. */
export interface DurableSteps {
  /**
   * Runs a function once and stores its result before it resolves. When the agent is called again
   * for the same turn, after a crash, a suspension or on another replica, the same id returns the
   * stored result, and the function is not run. Only an attempt that was under way when its process
   * died is repeated, with the same `key`.
   *
   * The result must be JSON of at most 1,000,000 bytes; otherwise the step fails with `invalid` or
   * `too_large`. A failure is stored after its last attempt, and thrown again as a `StepError`. An
   * id is used once in a turn: the same id at the same time, or later, is the same step.
   *
   * @example
   * ```ts
   * const status = await context.step('order', async ({ signal, key }) => {
   *   const headers = { 'idempotency-key': key };
   *   return (await fetch(url, { method: 'POST', headers, signal })).status;
   * });
   * ```
   */
  step<T>(
    id: string,
    run: (context: StepContext) => T | Promise<T>,
    options?: StepOptions,
  ): Promise<T>;
  /**
   * Waits until a time, or for so many ms. The time is stored, so a wait survives everything, and
   * a run that waits long is suspended and holds no process.
   */
  sleep(id: string, until: Date | number): Promise<void>;
  /**
   * Waits for an event from outside and resolves with its data. Like a question, it may wait for
   * days, and holds no process. The first event counts. To limit the time, use `timeoutMs` and not
   * a race with `sleep`: the wait that lost would stay open.
   */
  waitFor<T = unknown>(id: string, options?: WaitForOptions): Promise<T>;
}

/** The members of a `step.stored` event. */
export interface StepRecord {
  /** Unique in a turn. */
  readonly id: string;
  /**
   * - `started`: it takes longer than a moment. Written for readers; not every step has it.
   * - `waiting`: for a time (`until`) or for an event from outside (`event`).
   * - `retrying`: an attempt failed, and the next one begins at `until`.
   * - `completed`, `failed`: for good. A step has exactly one of these.
   */
  readonly status: 'started' | 'waiting' | 'retrying' | 'completed' | 'failed';
  readonly kind: 'step' | 'sleep' | 'event';
  /** The attempt that started, failed or completed. Counts from 1. */
  readonly attempt?: number;
  /** The result; absent if it is undefined. */
  readonly output?: unknown;
  readonly error?: Failure;
  /** Unix ms. */
  readonly until?: number;
  /** JSON Schema of the data that the step waits for. */
  readonly schema?: JsonObject;
  /** How long the last attempt took. */
  readonly ms?: number;
}

/** A durable wait that is not over. */
export interface OpenWait {
  readonly id: string;
  readonly kind: StepRecord['kind'];
  /** Unix ms. Absent for an event from outside. */
  readonly until?: number;
  readonly schema?: JsonObject;
  /** The event, once it has arrived. */
  readonly answer?: Answer;
}

/** The durable steps of the open or last run. The log has them; a snapshot only knows where. */
export interface StepMark {
  /** The first entry of the turn's runs. */
  readonly from: number;
  /** The attempt of the run that stored the last one: progress since a crash. */
  readonly attempt: number;
}

/** Where the open step and the open run began. `advance` needs it to discard text and sum usage. */
export interface Mark {
  /** Length of `text` when the step began; `retry` with `discard` goes back to it. */
  readonly text: number;
  /** Usage of the task before this attempt of the run. */
  readonly usage?: Usage;
  /** The first entry of the first run of the turn. */
  readonly from?: Seq;
  /** A model step has begun and not finished: what it has shown may be written again. */
  readonly unfinished?: true;
  /** The last attempt of the turn that finished a model step. */
  readonly attempt?: number;
  /** Between runs: how many turns had been submitted when the last run ended. */
  readonly turns?: number;
}
