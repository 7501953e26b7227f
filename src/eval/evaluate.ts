import { randomUUID } from 'node:crypto';
import { DuolaneError, errorMessage } from '../errors.ts';
import type { Agent, Entry, Logger } from '../event/types.ts';
import { asObject } from '../json.ts';
import { checkNumbers } from '../task/check-numbers.ts';
import { completeTurn } from '../task/run/complete-turn.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { createRunner } from '../task/run/runner.ts';
import type { Runner, TaskLog } from '../task/types.ts';
import { runOf } from './eval-run.ts';
import { scoresOf } from './default-scores.ts';
import type { EvalCase, EvalRun, Evaluated, Score, Scorer } from './types.ts';

/** Options of `evaluate`. */
export interface EvaluateOptions {
  /** The name of the agent in the log and in exported spans. */
  readonly name?: string;
  readonly scorers?: readonly Scorer[];
  /**
   * How many cases run concurrently; 1 by default, because times mean most when nothing else runs.
   */
  readonly atOnce?: number;
  /** How often each case runs; 1 by default. Models do not give the same text twice. */
  readonly rounds?: number;
  /** A run that takes longer is canceled; five minutes by default. */
  readonly timeoutMs?: number;
  /** Gets what no caller gets, such as the cause of an internal error. */
  readonly logger?: Logger;
  /** Cancels the running cases; the generator then throws its reason. */
  readonly signal?: AbortSignal;
}

/**
 * Runs each case through the same runner and log as a served agent, and scores its log. Yields the
 * runs as they end. An agent or a scorer that throws gives a run that does not pass, never an
 * exception. Breaking out of the loop cancels the running cases.
 *
 * @example
 * ```ts
 * const cases = [{ name: 'greets', input: 'hello', expect: { text: 'hello' } }];
 * for await (const { case: { name }, pass } of evaluate(agent, cases)) console.log(name, pass);
 * ```
 */
export async function* evaluate(
  agent: Agent,
  cases: readonly EvalCase[],
  options: EvaluateOptions = {},
): AsyncGenerator<Evaluated, void, undefined> {
  const { name = 'agent', scorers = [], atOnce = 1, rounds = 1, timeoutMs = 300_000 } = options;
  checkNames(cases);
  checkNumbers({ timeoutMs });
  for (const [option, count] of Object.entries({ atOnce, rounds }))
    if (!Number.isInteger(count) || count < 1)
      throw new DuolaneError('invalid', `invalid ${option} ${count}: expected 1 or more`);
  await using log = memoryLog();
  await using runner = createRunner({
    log,
    agents: { [name]: agent },
    ...(options.logger && { logger: options.logger }),
  });
  const stop = new AbortController();
  const signals = options.signal ? [options.signal, stop.signal] : [stop.signal];
  const run = async (each: EvalCase, round: number): Promise<Evaluated> => {
    const signal = AbortSignal.any([...signals, AbortSignal.timeout(timeoutMs)]);
    const entries = await entriesOf({ runner, log }, name, each, signal);
    options.signal?.throwIfAborted();
    return scored(runOf(each, round, entries), scorers);
  };
  const waiting = Array.from({ length: rounds }, (_, index) =>
    cases.map((each) => ({ each, round: index + 1 })),
  ).flat();
  const running = new Map<number, Promise<readonly [number, Evaluated]>>();
  let next = 0;
  try {
    while (next < waiting.length || running.size > 0) {
      while (running.size < atOnce && next < waiting.length) {
        const { each, round } = waiting[next] as (typeof waiting)[number];
        const key = next++;
        const ended = run(each, round).then((result) => [key, result] as const);
        running.set(key, ended);
      }
      const [key, result] = await Promise.race(running.values());
      running.delete(key);
      yield result;
    }
  } finally {
    stop.abort(new DuolaneError('canceled', 'the evaluation was stopped by its reader'));
    // The runs were cancelled, so their outcomes are not needed.
    await Promise.allSettled(running.values());
  }
}

async function entriesOf(
  host: { readonly runner: Runner; readonly log: TaskLog },
  agent: string,
  each: EvalCase,
  signal: AbortSignal,
): Promise<readonly Entry[]> {
  const ids = { agent, task: randomUUID(), context: randomUUID(), messageId: randomUUID() };
  const input = typeof each.input === 'string' ? [{ text: each.input }] : each.input;
  const answers = [...(each.answers ?? [])];
  const entries: Entry[] = [];
  let canceled = false;
  for await (const entry of completeTurn(
    host,
    { ...ids, parts: input },
    {
      ask: async ({ id }) => ({ action: 'decline', ...answers.shift(), id }),
      signal,
    },
  )) {
    entries.push(entry);
    if (entry.type !== each.cancelOn || canceled) continue;
    canceled = true;
    await host.log.requestCancel(ids.task).catch((error: unknown) => {
      // The run has ended meanwhile: its outcome shows that the cancel came too late.
      if (DuolaneError.from(error).code !== 'closed') throw error;
    });
  }
  return entries;
}

async function scored(run: EvalRun, scorers: readonly Scorer[]): Promise<Evaluated> {
  const own = scorers.map(async (scorer): Promise<Score> => {
    try {
      return checked(await scorer(run));
    } catch (error) {
      const why = `the scorer threw: ${errorMessage(error)}`;
      return { name: scorer.name || 'scorer', value: 0, pass: false, why };
    }
  });
  const scores = [...scoresOf(run), ...(await Promise.all(own))];
  return { ...run, scores, pass: scores.every(({ pass }) => pass) };
}

function checked(score: unknown): Score {
  const { name, value, pass } = asObject(score);
  if (typeof name === 'string' && typeof value === 'number' && typeof pass === 'boolean')
    return score as Score;
  throw new DuolaneError('invalid', 'it returned no score: expected { name, value, pass }');
}

function checkNames(cases: readonly EvalCase[]): void {
  const names = cases.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined)
    throw new DuolaneError(
      'invalid',
      `invalid cases: the name "${twice}" is used twice; expected unique names`,
    );
}
