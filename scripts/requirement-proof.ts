import {
  isRequirementId,
  REQUIREMENTS,
  type Requirement,
  type RequirementId,
} from '../test/requirements.ts';
import { splitTitle, type TestReport } from './test-report.mjs';

/** `failed`: a test that cites the row failed. `skipped`: all that cite it were skipped. */
export type RowState = 'proven' | 'failed' | 'skipped' | 'uncited';

export interface Row extends Requirement {
  readonly state: RowState;
  /** Set if proven: `always` for a test that runs everywhere, else the suite that proves it. */
  readonly by?: string;
}

export interface Proof {
  readonly rows: readonly Row[];
  /** Suites of which at least one test ran; a suite that was skipped completely proves nothing. */
  readonly ran: ReadonlySet<string>;
  /** Ids that a test cites although no such row exists. */
  readonly unknown: readonly string[];
}

/** What `test/proven.json` holds: rows that must stay proven, and those that need a suite. */
export interface Pinned {
  readonly always: readonly string[];
  readonly suites: Readonly<Record<string, readonly string[]>>;
}

interface Citation {
  readonly id: string;
  readonly suite: string;
  readonly status: string;
}

const ALWAYS = 'always';

/** Evaluates a test report. A row needs one passed test that cites it and no failed one. */
export function prove(report: TestReport): Proof {
  const ran = new Set<string>();
  const citations = new Map<string, Citation[]>();
  for (const { status, title, ancestorTitles } of report.testResults.flatMap(
    (file) => file.assertionResults,
  )) {
    const suite = ancestorTitles.map(suiteOf).find((name) => name !== undefined);
    if (suite !== undefined && (status === 'passed' || status === 'failed')) ran.add(suite);
    for (const id of citedIn(title))
      citations.set(id, [...(citations.get(id) ?? []), { id, suite: suite ?? ALWAYS, status }]);
  }
  return {
    rows: REQUIREMENTS.map((row) => ({ ...row, ...judge(citations.get(row.id) ?? []) })),
    ran,
    unknown: [...citations.keys()].filter((id) => !isRequirementId(id)),
  };
}

function suiteOf(title: string): string | undefined {
  const [name] = splitTitle(title);
  return name.startsWith('suite ') ? name.slice('suite '.length) : undefined;
}

function citedIn(title: string): string[] {
  return /\[(S\d+(?: S\d+)*)\]$/.exec(splitTitle(title)[0])?.[1]?.split(' ') ?? [];
}

function judge(citations: readonly Citation[]): Pick<Row, 'state' | 'by'> {
  if (citations.length === 0) return { state: 'uncited' };
  if (citations.some(({ status }) => status === 'failed')) return { state: 'failed' };
  const suites = citations.filter(({ status }) => status === 'passed').map(({ suite }) => suite);
  const by = suites.includes(ALWAYS) ? ALWAYS : suites.toSorted()[0];
  return by === undefined ? { state: 'skipped' } : { state: 'proven', by };
}

/**
 * Where a row is proven. `here`: in this run. `elsewhere`: its suite did not run here, and
 * test/proven.json says that it was proven where it ran. `failed` and `not run` prove nothing.
 */
export type Standing = 'here' | 'elsewhere' | 'not run' | 'failed';

export function standingOf({ id, state }: Row, { ran }: Proof, { suites }: Pinned): Standing {
  if (state === 'proven') return 'here';
  if (state === 'failed') return 'failed';
  const isElsewhere = Object.entries(suites).some(
    ([suite, ids]) => ids.includes(id) && !ran.has(suite),
  );
  return isElsewhere ? 'elsewhere' : 'not run';
}

/**
 * The problems, one sentence each: a citation of an unknown row, a pinned row that is not proven.
 */
export function findLosses(proof: Proof, pinned: Pinned): string[] {
  const byId = new Map<string, Row>(proof.rows.map((row) => [row.id, row]));
  const due = [
    ...pinned.always,
    ...Object.entries(pinned.suites).flatMap(([suite, ids]) => (proof.ran.has(suite) ? ids : [])),
  ];
  return [
    ...proof.unknown.map(
      (id) => `${id} is cited by a test, but is not a row of test/requirements.ts`,
    ),
    ...due.flatMap((id) => {
      const row = byId.get(id);
      if (row === undefined)
        return [`${id} is in test/proven.json, but is not a row of test/requirements.ts`];
      return row.state === 'proven'
        ? []
        : [`${id} was proven and is now ${row.state}: ${row.text}`];
    }),
  ];
}

/** Rows that are proven but not pinned yet: a change that loses them would not be noticed. */
export function findUnpinned({ rows }: Proof, { always, suites }: Pinned): RequirementId[] {
  const pinned = new Set([...always, ...Object.values(suites).flat()]);
  return rows.filter(({ id, state }) => state === 'proven' && !pinned.has(id)).map(({ id }) => id);
}

/** The new content of test/proven.json; the pins of suites that did not run stay. */
export function pin(proof: Proof, before: Pinned): Pinned {
  const provenBy = (suite: string): RequirementId[] =>
    proof.rows.filter(({ state, by }) => state === 'proven' && by === suite).map(({ id }) => id);
  const always: string[] = provenBy(ALWAYS);
  const suites = [...new Set([...Object.keys(before.suites), ...proof.ran])].toSorted();
  return {
    always,
    suites: Object.fromEntries(
      suites
        .map((suite) => [suite, proof.ran.has(suite) ? provenBy(suite) : before.suites[suite]])
        .map(([suite, ids]) => [suite, (ids as string[]).filter((id) => !always.includes(id))])
        .filter(([, ids]) => (ids as string[]).length > 0),
    ),
  };
}
