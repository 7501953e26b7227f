import type { Answer } from '../ask.ts';
import type { Failure } from '../errors.ts';
import type { Entry, Outcome, Part, TaskEvent, Usage } from '../event/types.ts';

/** One thing to say to an agent, and what must come of it. Plain JSON, except for parts with bytes. */
export interface EvalCase {
  /** Unique among the cases. */
  readonly name: string;
  readonly input: string | readonly Part[];
  /** What a person says, in the order of the questions; a further question is declined. */
  readonly answers?: readonly Omit<Answer, 'id'>[];
  /** Cancels at the first event of this type. */
  readonly cancelOn?: TaskEvent['type'];
  readonly expect?: Expectation;
}

/** Each field that is given is a score of its own. */
export interface Expectation {
  /** `completed` by default; `canceled` for a case that cancels. */
  readonly outcome?: Outcome;
  /** All of these stand in the answer, or in the error where there is no answer, whatever their case. */
  readonly text?: string | readonly string[];
  /** These are called, in this order; others may stand between. */
  readonly tools?: readonly string[];
  /** The structured output has at least this. */
  readonly output?: unknown;
  /** From the message to the first text, at most. */
  readonly firstTextMs?: number;
  /** The longest silence between two texts, at most. */
  readonly pauseMs?: number;
  /** From the message to the end, at most. */
  readonly totalMs?: number;
}

/** From 0 to 1. What does not pass says why. */
export interface Score {
  readonly name: string;
  readonly value: number;
  readonly pass: boolean;
  readonly why?: string;
}

/** A score of your own: a rule, a comparison, another model. */
export type Scorer = (run: EvalRun) => Score | Promise<Score>;

export interface EvalCall {
  readonly name: string;
  readonly args: unknown;
  readonly output?: unknown;
  readonly error?: Failure;
}

/** What one run was like, as its log tells. */
export interface EvalRun {
  readonly case: EvalCase;
  /** From 1, when cases are repeated. */
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

export interface Evaluated extends EvalRun {
  readonly scores: readonly Score[];
  /** Every score passes. */
  readonly pass: boolean;
}

/** A run without what was said in it, entry by entry. */
export type Measured = Omit<Evaluated, 'entries'>;
