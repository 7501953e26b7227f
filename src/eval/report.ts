import { addUsage } from '../event/usage.ts';
import type { Usage } from '../event/types.ts';
import { omitUndefined } from '../json.ts';
import type { Evaluated, Measured, Score } from './types.ts';

/** The distribution of one measure over all runs that have it. */
export interface Spread {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
}

/** The result of an evaluation as JSON, format version 1. */
export interface EvalReport {
  readonly format: 'duolane-eval';
  readonly version: 1;
  readonly agent: string;
  readonly createdAt: number;
  readonly runs: number;
  readonly passed: number;
  /** The mean of each score, by name. */
  readonly scores: Readonly<Record<string, number>>;
  readonly firstTextMs?: Spread;
  readonly totalMs?: Spread;
  readonly usage: Usage;
  readonly results: readonly ReportedRun[];
}

/** One run in a report. */
export type ReportedRun = Pick<
  Evaluated,
  'outcome' | 'text' | 'totalMs' | 'firstTextMs' | 'pauseMs' | 'pass' | 'round' | 'error' | 'usage'
> & { readonly case: string; readonly tools: readonly string[]; readonly scores: readonly Score[] };

/**
 * Summarizes the runs of `evaluate`. It needs no entries, so a caller with many runs need not keep
 * them.
 */
export function reportOf(agent: string, runs: readonly Measured[]): EvalReport {
  const scores = new Map<string, number[]>();
  for (const { name, value } of runs.flatMap((run) => run.scores)) {
    const values = scores.get(name);
    if (values) values.push(value);
    else scores.set(name, [value]);
  }
  return omitUndefined<EvalReport>({
    format: 'duolane-eval',
    version: 1,
    agent,
    createdAt: Date.now(),
    runs: runs.length,
    passed: runs.filter(({ pass }) => pass).length,
    scores: Object.fromEntries([...scores].map(([name, values]) => [name, mean(values)])),
    firstTextMs: spread(runs.flatMap(({ firstTextMs }) => firstTextMs ?? [])),
    totalMs: spread(runs.map(({ totalMs }) => totalMs)),
    usage: runs.reduce((sum: Usage, run) => addUsage(sum, run.usage), {}),
    results: runs.map(reported),
  });
}

function reported(run: Measured): ReportedRun {
  const { round, outcome, text, totalMs, firstTextMs, pauseMs, error, pass, usage, scores } = run;
  return omitUndefined<ReportedRun>({
    case: run.case.name,
    round,
    outcome,
    pass,
    text,
    tools: run.calls.map((call) => call.name),
    totalMs,
    firstTextMs,
    pauseMs,
    error,
    usage,
    scores,
  });
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

function spread(values: readonly number[]): Spread | undefined {
  if (values.length === 0) return undefined;
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] as number;
  return { p50: at(0.5), p95: at(0.95), max: at(1) };
}

/** The report as Markdown: a table of the runs, and why runs failed. */
export function markdownOf(report: EvalReport): string {
  const { agent, runs, passed, scores, firstTextMs, totalMs, results } = report;
  const names = Object.keys(scores);
  const row = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|').replaceAll('\n', ' ')).join(' | ')} |`;
  const failures = results.flatMap((run) =>
    run.scores
      .filter(({ pass }) => !pass)
      .map(({ name, why = '' }) => `- **${nameOf(run)}**, ${name}: ${why}`),
  );
  return [
    `# Evaluation of ${agent}`,
    '',
    `${passed} of ${runs} runs pass.${spreadText('First text', firstTextMs)}${spreadText('Total', totalMs)}`,
    '',
    row(['case', ...names, 'first text, ms', 'total, ms']),
    row(['---', ...names.map(() => '---'), '---:', '---:']),
    ...results.map((run) =>
      row([
        `${run.pass ? '✓' : '✗'} ${nameOf(run)}`,
        ...names.map((name) => percent(run.scores.find((score) => score.name === name)?.value)),
        String(run.firstTextMs ?? ''),
        String(run.totalMs),
      ]),
    ),
    row(['mean', ...names.map((name) => percent(scores[name])), '', '']),
    ...(failures.length > 0 ? ['', '## Failures', '', ...failures] : []),
    '',
  ].join('\n');
}

const nameOf = ({ case: name, round }: ReportedRun): string =>
  round > 1 ? `${name} (${round})` : name;

const percent = (value: number | undefined): string =>
  value === undefined ? '' : `${Math.round(value * 100)} %`;

const spreadText = (what: string, spread?: Spread): string =>
  spread ? ` ${what}: p50 ${spread.p50} ms, p95 ${spread.p95} ms.` : '';
