import { readFile } from 'node:fs/promises';
import { DuolaneError } from '../../errors.ts';
import type { EvalCase, Scorer } from '../../eval/index.ts';
import { isObject } from '../../json.ts';
import type { AgentModule } from '../../serve/types.ts';
import { importFile } from '../agents/load-agent.ts';

export interface EvalCases {
  readonly cases: readonly EvalCase[];
  readonly scorers?: readonly Scorer[];
}

const FIELDS = ['name', 'input', 'answers', 'cancelOn', 'expect'];
const EXPECTED = ['outcome', 'text', 'tools', 'output', 'firstTextMs', 'pauseMs', 'totalMs'];

/** The samples of an agent, of which nothing is expected but that they complete. */
export function sampleCases({ options }: AgentModule, what: string): readonly EvalCase[] {
  const samples = (options?.form?.['examples'] as unknown[] | undefined) ?? [];
  if (samples.length === 0)
    throw new DuolaneError(
      'invalid',
      `${what} has no samples to run: name a file with cases, as in duolane eval ${what} cases.json`,
    );
  return samples.map((sample, index) => ({
    name: `sample ${index + 1}`,
    input: typeof sample === 'string' ? sample : JSON.stringify(sample),
  }));
}

/** A list in JSON, or a module with `cases` and perhaps `scorers`; what is wrong in it is said by name. */
export async function readCases(file: string): Promise<EvalCases> {
  const { cases, scorers = [] } = /\.[cm]?[jt]s$/.test(file)
    ? await importFile(file)
    : { cases: await readJson(file) };
  if (!Array.isArray(cases) || cases.length === 0)
    throw new DuolaneError(
      'invalid',
      `${file} has no cases: a JSON file is a list of them, a module exports \`cases\``,
    );
  if (!Array.isArray(scorers) || !scorers.every((each) => typeof each === 'function'))
    throw new DuolaneError('invalid', `${file}: scorers must be a list of functions`);
  cases.forEach((each, index) => checkCase(each, `${file}, case ${index + 1}`));
  return { cases: cases as readonly EvalCase[], scorers: scorers as readonly Scorer[] };
}

async function readJson(file: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new DuolaneError('not_found', `${file} cannot be read: ${String(cause)}`, { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DuolaneError('invalid', `${file} is no JSON: ${String(cause)}`, { cause });
  }
}

/** A misspelt expectation would be one that always holds. */
function checkCase(each: unknown, where: string): void {
  const say = (what: string): never => {
    throw new DuolaneError('invalid', `${where}: ${what}`);
  };
  if (!isObject(each)) return say('not an object');
  if (typeof each['name'] !== 'string') return say('it has no name');
  if (typeof each['input'] !== 'string' && !Array.isArray(each['input']))
    return say('input must be a text or a list of parts');
  const { expect = {} } = each;
  if (!isObject(expect)) return say('expect must be an object');
  for (const [fields, known] of [
    [each, FIELDS],
    [expect, EXPECTED],
  ] as const) {
    const unknown = Object.keys(fields).find((field) => !known.includes(field));
    if (unknown !== undefined) say(`there is no ${unknown}; there are ${known.join(', ')}`);
  }
}
