import { expect, test } from 'vitest';
import * as host from '../../src/host/index.ts';
import { compareRecordings, type Difference, differencesOf } from './agent-sdk/compare.ts';
import { reasonFor } from './agent-sdk/explained.ts';
import { METHOD_CASES } from './agent-sdk/method-cases.ts';
import { OPTION_CASES } from './agent-sdk/option-cases.ts';
import { realRequest } from './agent-sdk/real-request.ts';
import { type Case, runCase, type Sdk } from './agent-sdk/run-case.ts';
import { peer } from '../peers.ts';
import { findRealCli } from '../support/real-cli.ts';
import { suite } from '../verifies.ts';

const official = await peer('agent-sdk');
const { command, missing } = await findRealCli('claude-cli-2.1');

const LONG = { timeout: 1_500_000 };

/**
 * Runs the same programs with the official SDK and with the host. Everything must be the same,
 * except what `explained.ts` and docs/guides/migrate-agent-sdk.md give a reason for.
 */
suite('programs of the official SDK on the host', official.reason, () => {
  test('options: what a recording CLI gets', LONG, async () => {
    expect(await compareAll('options', OPTION_CASES, recorded)).toEqual([]);
  });

  test('methods of a query: what a recording CLI gets', LONG, async () => {
    expect(await compareAll('methods', METHOD_CASES, recorded)).toEqual([]);
  });
});

suite('options of the official SDK on the host', official.reason ?? missing, () => {
  test('the request of the real CLI to its model', LONG, async () => {
    const cases = OPTION_CASES.filter(({ requests, end }) => !requests && !end);
    expect(await compareAll('model requests', cases, requested)).toEqual([]);
  });
});

type Compare = (theirs: Sdk, ours: Sdk, each: Case) => Promise<readonly Difference[]>;

const recorded: Compare = async (theirs, ours, each) =>
  compareRecordings(...(await both(theirs, ours, (sdk) => runCase(sdk, each))));

const requested: Compare = async (theirs, ours, each) =>
  differencesOf(...(await both(theirs, ours, (sdk) => realRequest(sdk, each, command))));

const both = <T>(theirs: Sdk, ours: Sdk, run: (sdk: Sdk) => Promise<T>): Promise<[T, T]> =>
  Promise.all([run(theirs), run(ours)]);

/** The differences without a reason; prints the counts. */
async function compareAll(
  what: string,
  cases: readonly Case[],
  compare: Compare,
): Promise<readonly unknown[]> {
  const members: object = await official.import('@anthropic-ai/claude-agent-sdk');
  const theirs = { ...members, name: 'official' } as Sdk;
  const ours = { ...host, name: 'ours' } as unknown as Sdk;
  const counts = { identical: 0, explained: 0 };
  const unexplained: unknown[] = [];
  for (const each of cases) {
    const found = await compare(theirs, ours, each);
    const open = found.filter((difference) => reasonFor(each.name, difference) === undefined);
    if (found.length === 0) counts.identical += 1;
    else if (open.length === 0) counts.explained += 1;
    unexplained.push(...open.map((difference) => ({ case: each.name, ...difference })));
  }
  process.stdout.write(
    `${what}: ${cases.length} cases, ${counts.identical} identical, ${counts.explained} explained\n`,
  );
  return unexplained;
}
