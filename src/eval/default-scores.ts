import { checkLaws } from '../event/check-laws.ts';
import { isObject } from '../json.ts';
import type { EvalRun, Score } from './types.ts';

/** The scores of what the case expects; that the stream keeps its contract is always one of them. */
export function scoresOf(run: EvalRun): readonly Score[] {
  const { expect = {}, cancelOn } = run.case;
  const outcome = expect.outcome ?? (cancelOn === undefined ? 'completed' : 'canceled');
  const broken = checkLaws(run.entries);
  return [
    verdict('contract', broken.length === 0, broken.join('; ')),
    verdict('outcome', run.outcome === outcome, unlike(run, outcome)),
    ...(expect.text === undefined ? [] : [spoken(run, [expect.text].flat())]),
    ...(expect.tools === undefined ? [] : [called(run, expect.tools)]),
    ...(expect.output === undefined
      ? []
      : [verdict('output', contains(run.output, expect.output), missing(run.output))]),
    ...within('first text', run.firstTextMs, expect.firstTextMs),
    ...within('pause', run.pauseMs, expect.pauseMs),
    ...within('total', run.totalMs, expect.totalMs),
  ];
}

const verdict = (name: string, pass: boolean, why: string): Score =>
  pass ? { name, value: 1, pass } : { name, value: 0, pass, why };

const share = (name: string, found: number, of: number, why: string): Score =>
  found === of ? { name, value: 1, pass: true } : { name, value: found / of, pass: false, why };

function unlike({ outcome, error }: EvalRun, wanted: string): string {
  return `${outcome}, not ${wanted}${error ? ` (${error.message})` : ''}`;
}

function spoken({ text, error }: EvalRun, phrases: readonly string[]): Score {
  const words = text || (error?.message ?? '');
  const said = words.toLowerCase();
  const absent = phrases.filter((phrase) => !said.includes(phrase.toLowerCase()));
  const found = phrases.length - absent.length;
  const why = `does not say ${absent.map(quoted).join(', ')}, but ${quoted(brief(words))}`;
  return share('text', found, phrases.length, why);
}

function called({ calls }: EvalRun, wanted: readonly string[]): Score {
  let found = 0;
  for (const { name } of calls) if (name === wanted[found]) found++;
  const names = calls.map(({ name }) => name).join(', ') || 'nothing';
  return share('tools', found, wanted.length, `called ${names}; ${wanted[found]} is missing`);
}

function within(name: string, ms: number | undefined, atMost: number | undefined): Score[] {
  if (atMost === undefined) return [];
  const took = ms === undefined ? 'there was no text' : `${Math.round(ms)} ms`;
  return [verdict(name, ms !== undefined && ms <= atMost, `${took}, at most ${atMost} ms`)];
}

/** Objects may have more, lists may not. */
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

const missing = (output: unknown): string => `it is ${brief(JSON.stringify(output) ?? 'nothing')}`;

const brief = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

const quoted = (text: string): string => JSON.stringify(text);
