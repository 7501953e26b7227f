import type { Answer } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { Entry, Outcome, Part, TaskEvent, Usage } from '../event/types.ts';

/** One input for an agent, and the expected result. JSON, except for parts with bytes. */
export interface EvalCase {
  /** Unique among the cases. */
  readonly name: string;
  readonly input: string | readonly Part[];
  /** The answers of a person, in the order of the questions; a further question is declined. */
  readonly answers?: readonly Omit<Answer, 'id'>[];
  /** Cancels the task at the first event of this type. */
  readonly cancelOn?: TaskEvent['type'];
  readonly expect?: Expectation;
}

/** What a run is expected to do. Each given field is a score of its own. */
export interface Expectation {
  /** `completed` by default; `canceled` for a case that cancels. */
  readonly outcome?: Outcome;
  /**
   * The text contains all of these, in any letter case; without a text, the error message does.
   */
  readonly text?: string | readonly string[];
  /** These tools are called in this order; other calls may come between. */
  readonly tools?: readonly string[];
  /** The structured output contains at least this. */
  readonly output?: unknown;
  /** The longest time from the message to the first text. */
  readonly firstTextMs?: number;
  /** The longest pause between two texts. */
  readonly pauseMs?: number;
  /** The longest time from the message to the end. */
  readonly totalMs?: number;
}

/** A score from 0 to 1. A score that does not pass says why. */
export interface Score {
  readonly name: string;
  readonly value: number;
  readonly pass: boolean;
  readonly why?: string;
}

/** Your own score: a rule, a comparison, another model. */
export type Scorer = (run: EvalRun) => Score | Promise<Score>;

/** One tool call of a run. */
export interface EvalCall {
  readonly name: string;
  readonly args: unknown;
  readonly output?: unknown;
  readonly error?: Failure;
}

/** The facts of one run, read from its log. */
export interface EvalRun {
  readonly case: EvalCase;
  /** From 1; cases may be repeated. */
  readonly round: number;
  readonly entries: readonly Entry[];
  readonly outcome: Outcome;
  readonly text: string;
  readonly output?: unknown;
  readonly error?: Failure;
  readonly calls: readonly EvalCall[];
  readonly usage: Usage;
  readonly firstTextMs?: number;
  readonly pauseMs?: number;
  readonly totalMs: number;
}

/** A run with its scores. */
export interface Evaluated extends EvalRun {
  readonly scores: readonly Score[];
  /** Whether every score passes. */
  readonly pass: boolean;
}

/** A run without its entries. */
export type Measured = Omit<Evaluated, 'entries'>;
