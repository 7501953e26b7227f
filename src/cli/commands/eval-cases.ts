import { readFile } from 'node:fs/promises';
import { DuolaneError, errorMessage } from '../../errors.ts';
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

/** The samples of an agent as cases; each is only expected to complete. */
export function sampleCases({ options }: AgentModule, what: string): readonly EvalCase[] {
  const samples = (options?.form?.['examples'] as unknown[] | undefined) ?? [];
  if (samples.length === 0)
    throw new DuolaneError(
      'invalid',
      `${what} has no samples to run: expected a file with cases, e.g. duolane eval ${what} cases.json`,
    );
  return samples.map((sample, index) => ({
    name: `sample ${index + 1}`,
    input: typeof sample === 'string' ? sample : JSON.stringify(sample),
  }));
}

/** Reads cases from a JSON array, or from a module with `cases` and optional `scorers`. */
export async function readCases(file: string): Promise<EvalCases> {
  const { cases, scorers = [] } = /\.[cm]?[jt]s$/.test(file)
    ? await importFile(file)
    : { cases: await readJson(file) };
  if (!Array.isArray(cases) || cases.length === 0)
    throw new DuolaneError(
      'invalid',
      `${file} has no cases: expected a JSON array, or a module that exports \`cases\``,
    );
  if (!Array.isArray(scorers) || !scorers.every((each) => typeof each === 'function'))
    throw new DuolaneError('invalid', `invalid scorers in ${file}: expected an array of functions`);
  cases.forEach((each, index) => checkCase(each, `${file}, case ${index + 1}`));
  return { cases: cases as readonly EvalCase[], scorers: scorers as readonly Scorer[] };
}

async function readJson(file: string): Promise<unknown> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new DuolaneError('not_found', `cannot read ${file}: ${errorMessage(cause)}`, { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DuolaneError('invalid', `invalid JSON in ${file}: ${errorMessage(cause)}`, { cause });
  }
}

/** Throws `invalid` for unknown members: an expectation with a typing error would always be met. */
function checkCase(each: unknown, where: string): void {
  const refuse = (what: string): never => {
    throw new DuolaneError('invalid', `${where}: ${what}`);
  };
  if (!isObject(each)) return refuse('expected an object');
  if (typeof each['name'] !== 'string') return refuse('missing member "name": expected a string');
  if (typeof each['input'] !== 'string' && !Array.isArray(each['input']))
    return refuse('invalid input: expected a string or an array of parts');
  const { expect = {} } = each;
  if (!isObject(expect)) return refuse('invalid expect: expected an object');
  for (const [fields, known] of [
    [each, FIELDS],
    [expect, EXPECTED],
  ] as const) {
    const unknown = Object.keys(fields).find((field) => !known.includes(field));
    if (unknown !== undefined)
      refuse(`unknown member "${unknown}"; available: ${known.join(', ')}`);
  }
}
