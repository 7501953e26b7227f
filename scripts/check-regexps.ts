// `npm run regexps`: finds regular expressions that take long on hostile input. `test/regexps.json`
// lists the safe ones, because a check of all takes half a minute; a pattern that is not in it is
// checked in each run. `--update` writes the file and drops exceptions that no source needs any
// more; `--all` checks every pattern again.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parseAst } from 'vite';
import { ROOT } from './setup.mjs';

/** One use of a regular expression in a source file. */
export interface RegExpUse {
  /** Relative to the repository, with `/` on every platform. */
  readonly file: string;
  readonly line: number;
  /** `/source/flags`, or the text of the call where the source is computed. */
  readonly text: string;
  /** Not set where the source is computed, because the checker cannot judge it. */
  readonly pattern?: { readonly source: string; readonly flags: string };
}

/** An expression that the checker rejects and a reviewer has accepted. */
export interface Exception {
  /** As in `RegExpUse.text`. */
  readonly text: string;
  readonly file: string;
  /** What bounds the input, so that the expression cannot take long. */
  readonly reason: string;
}

export interface Reviewed {
  readonly safe: readonly string[];
  readonly exceptions: readonly Exception[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [member: string]: unknown;
}

interface Diagnostics {
  readonly status: 'safe' | 'vulnerable' | 'unknown';
  readonly complexity?: { readonly summary: string };
  readonly attack?: { readonly pattern: string };
  readonly error?: { readonly kind: string };
}

const FOLDERS = ['src', 'web/src'];
const REVIEWED = join(ROOT, 'test', 'regexps.json');

/** Every regular expression of the sources that we ship. */
export function findRegExps(): RegExpUse[] {
  return FOLDERS.flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => `${folder}/${file.replaceAll('\\', '/')}`)
      .filter((file) => /\.tsx?$/.test(file) && !/\.test\.tsx?$/.test(file))
      .toSorted()
      .flatMap((file) => regExpsOf(file, readFileSync(join(ROOT, file), 'utf8'))),
  );
}

/** The regular expressions of one source, literals and calls of `RegExp`. */
export function regExpsOf(file: string, source: string): RegExpUse[] {
  const lang = file.endsWith('x') ? 'tsx' : 'ts';
  const found: RegExpUse[] = [];
  for (const node of walk(parseAst(source, { lang }))) {
    if (!node['regex'] && !isRegExpCall(node)) continue;
    const text = source.slice(node.start, node.end);
    const line = source.slice(0, node.start).split('\n').length;
    if (node['regex']) {
      const { pattern, flags } = node['regex'] as { pattern: string; flags: string };
      found.push({ file, line, text, pattern: { source: pattern, flags } });
    } else {
      const [first, second] = node['arguments'] as (Node | undefined)[];
      // A literal argument is found as a literal of its own.
      if (first?.['regex']) continue;
      const [body, flags] = [textOf(first), second === undefined ? '' : textOf(second)];
      found.push(
        body === undefined || flags === undefined
          ? { file, line, text: text.replaceAll(/\s+/g, ' ') }
          : { file, line, text: `/${body}/${flags}`, pattern: { source: body, flags } },
      );
    }
  }
  return found;
}

function isRegExpCall(node: Node): boolean {
  const callee = node['callee'] as Node | undefined;
  return /^(New|Call)Expression$/.test(node.type) && callee?.['name'] === 'RegExp';
}

function textOf(node: Node | undefined): string | undefined {
  if (node?.type === 'Literal' && typeof node['value'] === 'string') return node['value'];
  if (node?.type !== 'TemplateLiteral' || (node['expressions'] as Node[]).length > 0) return;
  return (node['quasis'] as { value: { cooked: string } }[])[0]?.value.cooked;
}

function* walk(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const item of value) yield* walk(item);
  else if (value !== null && typeof value === 'object') {
    if ('type' in value && typeof value.type === 'string') yield value as Node;
    for (const member of Object.values(value)) yield* walk(member);
  }
}

/**
 * Why a pattern is not known to be safe, or `undefined`. It uses the pure JavaScript build, which
 * needs neither Java nor a binary. The time limits are generous, so that a busy machine changes no
 * result.
 */
export function checkPattern({
  source,
  flags,
}: {
  source: string;
  flags: string;
}): string | undefined {
  const { checkSync } = createRequire(import.meta.url)('recheck/lib/browser.js') as {
    checkSync: (source: string, flags: string, options: object) => Diagnostics;
  };
  const { status, complexity, attack, error } = checkSync(source, flags, {
    timeout: 120_000,
    attackTimeout: 60_000,
    incubationTimeout: 60_000,
    randomSeed: 1,
  });
  if (status === 'safe') return undefined;
  if (status === 'unknown') return `unknown (${error?.kind ?? 'no reason'})`;
  return `${complexity?.summary ?? status}, for example ${attack?.pattern ?? '(no example)'}`;
}

export function readReviewed(): Reviewed {
  return JSON.parse(readFileSync(REVIEWED, 'utf8')) as Reviewed;
}

/**
 * The problems, one sentence each. `check` gets only patterns that are neither known as safe nor
 * excepted.
 */
export function judgeRegExps(
  uses: readonly RegExpUse[],
  { safe, exceptions }: Reviewed,
  check: typeof checkPattern = checkPattern,
): string[] {
  const known = new Set(safe);
  const verdicts = new Map<string, string | undefined>();
  const wrong: string[] = [];
  for (const { file, line, text, pattern } of uses) {
    if (exceptions.some((one) => one.file === file && one.text === text)) continue;
    if (pattern === undefined) {
      wrong.push(`${file}:${line} ${text}: computed, so it needs an exception with a reason`);
      continue;
    }
    if (known.has(text)) continue;
    if (!verdicts.has(text)) verdicts.set(text, check(pattern));
    const problem = verdicts.get(text);
    if (problem !== undefined) wrong.push(`${file}:${line} ${text}: ${problem}`);
  }
  for (const { file, text, reason } of exceptions) {
    if (!uses.some((use) => use.file === file && use.text === text))
      wrong.push(`test/regexps.json excepts ${text} in ${file}, where it no longer exists`);
    if (reason.trim() === '') wrong.push(`test/regexps.json excepts ${text}, but gives no reason`);
  }
  return wrong;
}

function update(): void {
  const { safe, exceptions } = readReviewed();
  const known = new Set(safe);
  const uses = findRegExps();
  const excepted = (use: RegExpUse): boolean =>
    exceptions.some((one) => one.file === use.file && one.text === use.text);
  const candidates = new Map(
    uses.flatMap((use) => (use.pattern && !excepted(use) ? [[use.text, use.pattern]] : [])),
  );
  const kept = [...candidates].filter(
    ([text, pattern]) =>
      (known.has(text) && values.all !== true) || checkPattern(pattern) === undefined,
  );
  const used = exceptions.filter(({ file, text }) =>
    uses.some((use) => use.file === file && use.text === text),
  );
  const result: Reviewed = { safe: kept.map(([text]) => text).toSorted(), exceptions: used };
  writeFileSync(REVIEWED, `${JSON.stringify(result, null, 2)}\n`);
  console.log(`test/regexps.json: ${kept.length} safe, ${used.length} exceptions`);
}

const { values } = parseArgs({
  options: { update: { type: 'boolean' }, all: { type: 'boolean' } },
  strict: false,
});

if (process.argv[1] === import.meta.filename) {
  if (values['update'] === true) update();
  const reviewed = readReviewed();
  const uses = findRegExps();
  const wrong = judgeRegExps(uses, values['all'] === true ? { ...reviewed, safe: [] } : reviewed);
  for (const line of wrong) console.error(line);
  console.log(`${uses.length} regular expressions, ${wrong.length} problems`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}
