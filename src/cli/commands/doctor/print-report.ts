import type { Finding, Severity } from '../../../trace/index.ts';
import { stripControlCharacters } from '../../terminal/entry-printer.ts';
import type { TextOutput } from '../../terminal/terminal.ts';
import type { Check } from './check-installation.ts';

const MARK = {
  error: ['red', '✗'],
  warning: ['yellow', '!'],
  info: ['dim', 'i'],
} as const satisfies Record<Severity, readonly [string, string]>;

/** Findings as a person reads them: where, what, which rule, what to do. */
export function printFindings(out: TextOutput, file: string, findings: readonly Finding[]): void {
  for (const { rule, severity, line, what, fix } of findings) {
    const [colour, sign] = MARK[severity];
    const where = line === 0 ? '' : out.style('dim', `${file}:${line} `);
    out.line(`${out.style(colour, sign)} ${where}${stripControlCharacters(what)}`);
    out.line(`    ${out.style('dim', `${rule}:`)} ${fix}`);
  }
}

export function summary(findings: readonly Finding[]): string {
  const count = (severity: Severity): number =>
    findings.filter((each) => each.severity === severity).length;
  const words = [
    [count('error'), 'error'],
    [count('warning'), 'warning'],
    [count('info'), 'note'],
  ] as const;
  const said = words.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}${n === 1 ? '' : 's'}`);
  return said.length === 0 ? 'nothing is wrong' : said.join(', ');
}

export const isBroken = (findings: readonly Finding[]): boolean =>
  findings.some(({ severity }) => severity === 'error');

const STATE = { ok: ['green', '✓'], missing: ['red', '✗'], optional: ['yellow', '-'] } as const;

export function printChecks(out: TextOutput, checks: readonly Check[]): void {
  for (const { name, state, what, cost, fix } of checks) {
    const [colour, sign] = STATE[state];
    out.line(`${out.style(colour, sign)} ${name.padEnd(11)} ${what}`);
    if (cost !== undefined) out.line(`              without it: ${cost}`);
    if (fix !== undefined) out.line(`              to get it: ${fix}`);
  }
}
