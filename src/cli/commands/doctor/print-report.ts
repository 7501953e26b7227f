import type { Finding, Severity } from '../../../trace/index.ts';
import { stripControlCharacters } from '../../../event/text/control-characters.ts';
import type { TextOutput } from '../../terminal/terminal.ts';
import type { Check } from './check-installation.ts';

const MARK = {
  error: ['red', '✗'],
  warning: ['yellow', '!'],
  info: ['dim', 'i'],
} as const satisfies Record<Severity, readonly [string, string]>;

/** Prints what a server does right. The texts may have names that the server chose. */
export function printFacts(out: TextOutput, facts: readonly string[]): void {
  for (const fact of facts) out.line(`${out.style('green', '✓')} ${stripControlCharacters(fact)}`);
}

/** Prints findings: the line, what happened, the rule, and the fix. */
export function printFindings(out: TextOutput, file: string, findings: readonly Finding[]): void {
  for (const { rule, severity, line, what, fix } of findings) {
    const [colour, sign] = MARK[severity];
    const where = line === 0 ? '' : out.style('dim', `${file}:${line} `);
    out.line(`${out.style(colour, sign)} ${where}${stripControlCharacters(what)}`);
    out.line(`    ${out.style('dim', `${rule}:`)} ${stripControlCharacters(fix)}`);
  }
}

/** The number of findings of each severity as text. */
export function summary(findings: readonly Finding[]): string {
  const count = (severity: Severity): number =>
    findings.filter((each) => each.severity === severity).length;
  const counts = [
    [count('error'), 'error'],
    [count('warning'), 'warning'],
    [count('info'), 'note'],
  ] as const;
  const found = counts
    .filter(([n]) => n > 0)
    .map(([n, name]) => `${n} ${name}${n === 1 ? '' : 's'}`);
  return found.length === 0 ? 'no problems found' : found.join(', ');
}

export const isBroken = (findings: readonly Finding[]): boolean =>
  findings.some(({ severity }) => severity === 'error');

const STATE = { ok: ['green', '✓'], missing: ['red', '✗'], optional: ['yellow', '-'] } as const;

export function printChecks(out: TextOutput, checks: readonly Check[]): void {
  for (const { name, state, what, cost, fix } of checks) {
    const [colour, sign] = STATE[state];
    out.line(`${out.style(colour, sign)} ${name.padEnd(11)} ${what}`);
    if (cost !== undefined) out.line(`              without it: ${cost}`);
    if (fix !== undefined) out.line(`              fix: ${fix}`);
  }
}
