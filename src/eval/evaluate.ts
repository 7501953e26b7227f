import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../errors.ts';
import type { Agent, Entry, Logger } from '../event/types.ts';
import { completeTurn } from '../task/run/complete-turn.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { createRunner } from '../task/run/runner.ts';
import type { Runner, TaskLog } from '../task/types.ts';
import { runOf } from './eval-run.ts';
import { scoresOf } from './default-scores.ts';
import type { EvalCase, EvalRun, Evaluated, Score, Scorer } from './types.ts';

export interface EvaluateOptions {
  /** Of the agent in the log and in exported spans. */
  readonly name?: string;
  readonly scorers?: readonly Scorer[];
  /** How many cases run at once, 1 by default: times mean most when nothing else runs. */
  readonly atOnce?: number;
  /** Each case this many times, 1 by default: models do not say the same thing twice. */
  readonly rounds?: number;
  /** A run that takes longer is canceled; five minutes by default. */
  readonly timeoutMs?: number;
  /** Hears what no caller is told, such as the error behind an internal one. */
  readonly logger?: Logger;
  /** Cancels what runs; the generator then throws its reason. */
  readonly signal?: AbortSignal;
}

/**
 * Runs each case through the same runner and log as a served agent, and scores what the log says.
 * Yields the runs as they end. An agent or a scorer that throws is a run that does not pass, never an
 * exception. Leaving the loop cancels what still runs.
 */
export async function* evaluate(
  agent: Agent,
  cases: readonly EvalCase[],
  options: EvaluateOptions = {},
): AsyncGenerator<Evaluated, void, undefined> {
  const { name = 'agent', scorers = [], atOnce = 1, rounds = 1, timeoutMs = 300_000 } = options;
  checkNames(cases);
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
    stop.abort(new DuolaneError('canceled', 'nobody wants the evaluation any more'));
    // They were stopped; how each ended is of no use any more.
    await Promise.allSettled(running.values());
  }
}

async function entriesOf(
  place: { readonly runner: Runner; readonly log: TaskLog },
  agent: string,
  each: EvalCase,
  signal: AbortSignal,
): Promise<readonly Entry[]> {
  const ids = { agent, task: randomUUID(), context: randomUUID(), messageId: randomUUID() };
  const parts = typeof each.input === 'string' ? [{ text: each.input }] : each.input;
  const answers = [...(each.answers ?? [])];
  const entries: Entry[] = [];
  let canceled = false;
  for await (const entry of completeTurn(
    place,
    { ...ids, parts },
    {
      ask: async ({ id }) => ({ action: 'decline', ...answers.shift(), id }),
      signal,
    },
  )) {
    entries.push(entry);
    if (entry.type !== each.cancelOn || canceled) continue;
    canceled = true;
    await place.log.requestCancel(ids.task);
  }
  return entries;
}

async function scored(run: EvalRun, scorers: readonly Scorer[]): Promise<Evaluated> {
  const own = scorers.map(async (scorer): Promise<Score> => {
    try {
      return await scorer(run);
    } catch (error) {
      const why = `the scorer threw: ${DuolaneError.from(error).message}`;
      return { name: scorer.name || 'scorer', value: 0, pass: false, why };
    }
  });
  const scores = [...scoresOf(run), ...(await Promise.all(own))];
  return { ...run, scores, pass: scores.every(({ pass }) => pass) };
}

function checkNames(cases: readonly EvalCase[]): void {
  const names = cases.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new DuolaneError('invalid', `two cases are called ${twice}`);
}
