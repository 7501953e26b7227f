import type { Answer, InputRequest } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { Entry, Outcome, Part } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ToolResult } from '../mcp/types.ts';
import type { Abortable } from '../stream/types.ts';

/**
 * What may go wrong while an agent runs.
 *
 * - `crash`: its process is killed after an event, and another one starts with another clock
 * - `drain`: its process is drained, as in a deploy, and another one starts
 * - `stop`: its process stands still, also for longer than its lease
 * - `store`: calls of the store fail before or after their commit, come late, or the connection
 *   is lost
 * - `cancel`: the task is canceled after an event
 * - `readers`: readers are slow, disconnect, abort or throw
 * - `answers`: answers and events come late, or twice
 */
export type AgentFault = 'crash' | 'drain' | 'stop' | 'store' | 'cancel' | 'readers' | 'answers';

/**
 * What may go wrong while tools are called.
 *
 * - `parallel`: calls run at the same time, also the same call twice
 * - `abort`: a call is aborted before, during or after it runs
 * - `cut`: the connection is lost, and the client connects again
 * - `readers`: the reader of a call is slow, breaks out of its loop or throws
 */
export type ToolFault = 'parallel' | 'abort' | 'cut' | 'readers';

interface SimulationOptions extends Abortable {
  /** The seed of the first schedule; 1 by default. One seed is one schedule, event by event. */
  readonly seed?: number;
  /** How many schedules are run, with the seeds from `seed` on; 100 by default. */
  readonly schedules?: number;
  /**
   * Called before each schedule: resets what agents or tools keep outside of it, such as counters.
   */
  readonly reset?: () => void;
  /**
   * Where the recording of a schedule that breaks a law is written, for `duolane replay`. By
   * default no file is written.
   */
  readonly file?: string;
  /** After so much simulated time a schedule that has not ended breaks a law; a day by default. */
  readonly limitMs?: number;
}

/** Options of `simulate` for an agent. */
export interface AgentSimulation extends SimulationOptions {
  /** What may go wrong; everything by default. */
  readonly faults?: readonly AgentFault[];
  /** The message that starts the task; `hello` by default. */
  readonly input?: string | readonly Part[];
  /**
   * The answer to a question, or the event that `waitFor` waits for: its id is the `id` of the
   * request then. By default everything is accepted, without content.
   */
  readonly answer?: (request: Pick<InputRequest, 'id'> & Partial<InputRequest>) => SimulatedAnswer;
  /**
   * What must be the same with and without faults, if the run completes: the text and the output by
   * default.
   */
  readonly same?: (run: SimulatedRun) => unknown;
  /** Your own laws by name: each returns what is wrong, or undefined. Checked after every run. */
  readonly laws?: Readonly<Record<string, (run: SimulatedRun) => string | undefined>>;
}

/** A person's answer in a simulation. */
export type SimulatedAnswer = Omit<Answer, 'id'>;

/** A run that has ended in a simulation. */
export interface SimulatedRun {
  readonly seed: number;
  readonly outcome: Outcome;
  readonly text: string;
  readonly output?: unknown;
  readonly error?: Failure;
  readonly entries: readonly Entry[];
}

/** Options of `simulate` for tools. */
export interface ToolSimulation extends SimulationOptions {
  /** The calls that are made, in every order. */
  readonly calls: readonly SimulatedCall[];
  /** What may go wrong; everything by default. */
  readonly faults?: readonly ToolFault[];
  /** What must be the same with and without faults: by default, whether the call failed. */
  readonly same?: (result: ToolResult, call: SimulatedCall) => unknown;
  /** Your own laws by name: each returns what is wrong, or undefined. Checked after every run. */
  readonly laws?: Readonly<Record<string, () => string | undefined>>;
}

/** A call of a tool in a simulation. */
export interface SimulatedCall {
  readonly name: string;
  readonly args?: JsonObject;
}

/** What was simulated, if no law was broken. */
export interface SimulationReport {
  readonly schedules: number;
  /** How many events happened. */
  readonly events: number;
  readonly simulatedMs: number;
  /** What went wrong, and how often. */
  readonly faults: Readonly<Record<string, number>>;
  /** The same for the same code, seeds and options. */
  readonly hash: string;
}
