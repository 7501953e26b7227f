import { join } from 'node:path';

/** A figure with its limit, in the form that all benchmarks print and check. */
export interface Row {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly floor?: number;
  readonly ceiling?: number;
}

export const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

const missed = ({ value, floor, ceiling }: Row): boolean =>
  (floor !== undefined && !(value >= floor)) || (ceiling !== undefined && !(value <= ceiling));

/**
 * Prints the rows, with `--json` as one line of JSON; the process exits with 1 if a limit is
 * missed.
 */
export function report(rows: readonly Row[]): void {
  if (process.argv.includes('--json'))
    console.log(JSON.stringify(rows.map((row) => ({ ...row, ok: !missed(row) }))));
  else for (const row of rows) console.log(printed(row));
  if (rows.some(missed)) process.exitCode = 1;
}

const shown = (limit: number): string => String(Math.round(limit * 100) / 100);

function printed(row: Row): string {
  const limit =
    row.floor !== undefined
      ? `at least ${shown(row.floor)}`
      : row.ceiling !== undefined
        ? `at most ${shown(row.ceiling)}`
        : '';
  const mark = missed(row) ? 'MISSED' : limit && 'ok';
  const value = row.value.toFixed(2).padStart(10);
  return `${row.name.padEnd(46)}${value} ${row.unit.padEnd(5)} ${limit.padEnd(14)} ${mark}`.trimEnd();
}

/**
 * The environment for a third-party program: no settings of this machine, and network on loopback
 * only.
 */
export const hermetic = (home: string): Readonly<Record<string, string>> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: home,
  CLAUDE_CONFIG_DIR: join(home, 'config'),
  ANTHROPIC_API_KEY: 'dummy-key',
  ANTHROPIC_BASE_URL: 'http://127.0.0.1:1',
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  DISABLE_TELEMETRY: '1',
  DISABLE_ERROR_REPORTING: '1',
  DISABLE_AUTOUPDATER: '1',
});
