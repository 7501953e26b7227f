import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  findLosses,
  findUnpinned,
  pin,
  type Pinned,
  prove,
  type Proof,
  standingOf,
} from '../../scripts/requirement-proof.ts';
import { GROUPS, REQUIREMENTS, type RequirementId } from '../requirements.ts';
import { suite, testIf, verifies } from '../verifies.ts';

const NOTHING: Pinned = { always: [], suites: {} };

function proofOf(...tests: [title: string, status: string, suite?: string][]): Proof {
  const assertionResults = tests.map(([title, status, suite]) => ({
    title,
    status,
    fullName: title,
    ancestorTitles: suite === undefined ? [''] : ['', `suite ${suite}`],
  }));
  return prove({ testResults: [{ name: 'x', status: '', message: '', assertionResults }] });
}

function stateOf(proof: Proof, id: RequirementId): string | undefined {
  return proof.rows.find((row) => row.id === id)?.state;
}

describe('the list', () => {
  test('has every row once, in order', () => {
    const ids = Array.from({ length: 270 }, (_, index) => `S${index + 1}`);
    expect(REQUIREMENTS.map(({ id }) => id)).toEqual(ids);
  });

  test('has the expected number of rows in each group', () => {
    const counts = Object.keys(GROUPS).map(
      (group) => REQUIREMENTS.filter((row) => row.group === group).length,
    );
    expect(counts).toEqual([
      13, 14, 12, 11, 23, 12, 8, 13, 11, 4, 14, 26, 3, 10, 8, 8, 8, 9, 4, 11, 9, 4, 17, 8, 6, 4,
    ]);
  });

  test('has a different text in each row', () => {
    expect(new Set(REQUIREMENTS.map(({ text }) => text)).size).toBe(270);
  });
});

describe('a citation', () => {
  test('of a row that does not exist is refused', () => {
    const wrong = 'S271' as RequirementId;
    expect(() => verifies(wrong, 'a sentence', () => {})).toThrow('"a sentence" cites S271');
    expect(() => verifies([], 'a sentence', () => {})).toThrow('cites no row');
  });

  test('of an unknown row in a report is found', () => {
    const proof = proofOf(['a sentence [S1 S999]', 'passed']);
    expect(findLosses(proof, NOTHING)).toEqual([expect.stringContaining('S999')]);
  });
});

describe('a row', () => {
  test('is proven by one passed test that cites it', () => {
    const proof = proofOf(['a sentence [S1 S24]', 'passed'], ['about S3 in general', 'passed']);
    const proven = proof.rows.filter(({ state }) => state === 'proven').map(({ id }) => id);
    expect(proven).toEqual(['S1', 'S24']);
  });

  test('is not proven while another test that cites it fails', () => {
    const proof = proofOf(['one [S1]', 'passed'], ['other [S1]', 'failed']);
    expect(stateOf(proof, 'S1')).toBe('failed');
  });

  test('is not proven by skipped tests', () => {
    const proof = proofOf(['one [S1]', 'skipped'], ['other [S1]', 'todo']);
    expect(stateOf(proof, 'S1')).toBe('skipped');
  });
});

describe('where a row is proven', () => {
  test('is here, elsewhere by the suite that it is pinned to, or nowhere', () => {
    const proof = proofOf(
      ['a [S1]', 'passed'],
      ['b [S2]', 'skipped', 'NATS on postgres (skipped: no nats-server)'],
      ['c [S3]', 'failed'],
      ['d [S4]', 'skipped', 'browser (skipped: no Chromium)'],
      ['e [S5]', 'passed', 'grpcio, in Python'],
    );
    const pinned = {
      always: ['S1', 'S4'],
      suites: { 'NATS on postgres': ['S2'], 'grpcio, in Python': ['S5', 'S6'] },
    };
    const standings = proof.rows.slice(0, 6).map((row) => standingOf(row, proof, pinned));
    expect(standings).toEqual(['here', 'elsewhere', 'failed', 'not run', 'here', 'not run']);
  });

  test('is marked as by contract where the product itself does not run', () => {
    const softer = REQUIREMENTS.filter(({ byContract }) => byContract !== undefined);
    expect(softer.map(({ id }) => id)).toEqual(['S8', 'S214', 'S268']);
  });
});

describe('a skip', () => {
  test('needs a reason', () => {
    expect(() => suite('a database', '', () => {})).toThrow('"a database" is skipped, but');
    expect(() => testIf(' ', 'a test', () => {})).toThrow('"a test" is skipped, but');
  });

  test('comes from verifies.ts alone, which requires a reason', () => {
    const bare = /\b(?:test|it|describe|suite|context)(?:\.\w+)*\.(?:skip|skipIf|runIf|todo)\b/;
    const wrong = ['src', 'test', 'examples'].flatMap((folder) =>
      readdirSync(new URL(`../../${folder}`, import.meta.url), {
        recursive: true,
        encoding: 'utf8',
      })
        .map((file) => `${folder}/${file}`)
        .filter((file) => /\.(test|peer|contract)\.ts$|^test\/.*\.ts$/.test(file))
        .filter((file) => !/^test\/(verifies|requirements\.test)\.ts$/.test(file))
        .filter((file) =>
          bare.test(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')),
        ),
    );
    expect(wrong).toEqual([]);
  });
});

describe('the check', () => {
  test('fails for a pinned row that is no longer proven, for any reason', () => {
    const proof = proofOf(['a [S1]', 'passed'], ['b [S2]', 'failed'], ['c [S3]', 'skipped']);
    const losses = findLosses(proof, { always: ['S1', 'S2', 'S3', 'S4'], suites: {} });
    expect(losses.map((text) => text.split(':', 1)[0])).toEqual([
      'S2 was proven and is now failed',
      'S3 was proven and is now skipped',
      'S4 was proven and is now uncited',
    ]);
  });

  test('requires the rows of a suite only if the suite ran', () => {
    const pinned = { always: [], suites: { postgres: ['S1'], 'real-cli': ['S2'] } };
    const proof = proofOf(['a [S9]', 'passed', 'postgres'], ['b [S2]', 'skipped', 'real-cli']);
    expect(findLosses(proof, pinned)).toEqual([expect.stringContaining('S1 was proven')]);
  });
});

describe('the update', () => {
  test('is due for rows that are proven and not pinned', () => {
    const proof = proofOf(['a [S1 S2]', 'passed'], ['b [S3]', 'passed', 'postgres']);
    expect(findUnpinned(proof, { always: ['S1'], suites: { postgres: [] } })).toEqual(['S2', 'S3']);
  });

  test('pins what is proven, by suite where only a suite proves it', () => {
    const proof = proofOf(
      ['a [S10 S2]', 'passed'],
      ['b [S2 S3]', 'passed', 'postgres'],
      ['c [S4]', 'failed'],
    );
    const expected = { always: ['S2', 'S10'], suites: { postgres: ['S3'] } };
    expect(pin(proof, NOTHING)).toEqual(expected);
  });

  test('keeps the rows of a suite that did not run, unless they are proven anyway', () => {
    const before = { always: ['S7'], suites: { 'real-cli': ['S1', 'S2'], gone: ['S3'] } };
    const proof = proofOf(['a [S1]', 'passed'], ['b [S2]', 'skipped', 'real-cli']);
    expect(pin(proof, before)).toEqual({
      always: ['S1'],
      suites: { gone: ['S3'], 'real-cli': ['S2'] },
    });
  });

  test('leaves only existing rows in test/proven.json', () => {
    const text = readFileSync(new URL('../proven.json', import.meta.url), 'utf8');
    const { always, suites } = JSON.parse(text) as Pinned;
    const known: readonly string[] = REQUIREMENTS.map(({ id }) => id);
    const pinned = [...always, ...Object.values(suites).flat()];
    expect(pinned.filter((id) => !known.includes(id))).toEqual([]);
  });
});
