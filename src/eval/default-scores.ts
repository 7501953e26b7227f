import { checkLaws } from '../event/check-laws.ts';
import { isObject } from '../json.ts';
import type { EvalRun, Score } from './types.ts';

/** The scores of what the case expects. One of them always checks the contract of the stream. */
export function scoresOf(run: EvalRun): readonly Score[] {
  const { expect = {}, cancelOn } = run.case;
  const outcome = expect.outcome ?? (cancelOn === undefined ? 'completed' : 'canceled');
  const broken = checkLaws(run.entries);
  return [
    passOrFail('contract', broken.length === 0, broken.join('; ')),
    passOrFail('outcome', run.outcome === outcome, outcomeProblem(run, outcome)),
    ...(expect.text === undefined ? [] : [textScore(run, [expect.text].flat())]),
    ...(expect.tools === undefined ? [] : [toolScore(run, expect.tools)]),
    ...(expect.output === undefined
      ? []
      : [passOrFail('output', contains(run.output, expect.output), missing(run.output))]),
    ...within('first text', run.firstTextMs, expect.firstTextMs),
    ...within('pause', run.pauseMs, expect.pauseMs),
    ...within('total', run.totalMs, expect.totalMs),
  ];
}

const passOrFail = (name: string, pass: boolean, why: string): Score =>
  pass ? { name, value: 1, pass } : { name, value: 0, pass, why };

const share = (name: string, found: number, of: number, why: string): Score =>
  found === of ? { name, value: 1, pass: true } : { name, value: found / of, pass: false, why };

function outcomeProblem({ outcome, error }: EvalRun, wanted: string): string {
  return `expected ${wanted}, got ${outcome}${error ? ` (${error.message})` : ''}`;
}

function textScore({ text, error }: EvalRun, phrases: readonly string[]): Score {
  const actual = text || (error?.message ?? '');
  const lowerCase = actual.toLowerCase();
  const absent = phrases.filter((phrase) => !lowerCase.includes(phrase.toLowerCase()));
  const found = phrases.length - absent.length;
  const why = `expected ${absent.map(quoted).join(', ')}, got ${quoted(brief(actual))}`;
  return share('text', found, phrases.length, why);
}

function toolScore({ calls }: EvalRun, wanted: readonly string[]): Score {
  let found = 0;
  for (const { name } of calls) if (name === wanted[found]) found++;
  const names = calls.map(({ name }) => name).join(', ') || 'nothing';
  return share('tools', found, wanted.length, `called ${names}; ${wanted[found]} is missing`);
}

function within(name: string, ms: number | undefined, atMost: number | undefined): Score[] {
  if (atMost === undefined) return [];
  const took = ms === undefined ? 'there was no text' : `${Math.round(ms)} ms`;
  return [passOrFail(name, ms !== undefined && ms <= atMost, `${took}, at most ${atMost} ms`)];
}

/**
 * Whether the value has everything that is wanted. Objects may have more members, lists not more
 * items.
 */
function contains(value: unknown, wanted: unknown): boolean {
  if (Array.isArray(wanted)) {
    return (
      Array.isArray(value) &&
      value.length === wanted.length &&
      wanted.every((each, index) => contains(value[index], each))
    );
  }
  if (!isObject(wanted)) return Object.is(value, wanted);
  return (
    isObject(value) && Object.entries(wanted).every(([key, each]) => contains(value[key], each))
  );
}

const SHOWN = 200;

const missing = (output: unknown): string => `got ${brief(JSON.stringify(output) ?? 'nothing')}`;

const brief = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

const quoted = (text: string): string => JSON.stringify(text);
