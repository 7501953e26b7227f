// `npx tsx scripts/mcp-e2e.ts <folder> [plain|grpc] [file…]` runs the end-to-end suite of the
// official TypeScript SDK of MCP with our bridge between its client and its server, and compares
// the failures with the list in docs/reference/conformance.md. <folder> (or MCP_SDK_FOLDER) is a
// checkout of that SDK whose own suite runs: `vitest run` in its test/e2e. Nothing is written
// there.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const CONFIG = join(ROOT, 'test/mcp-e2e/vitest.config.mts');
const EXPLAINED = join(ROOT, 'docs/reference/conformance.md');

/** The files of the suite whose cases connect by `wire()`, which the bridge replaces. */
const FILES = [
  'completion',
  'custom-methods',
  'dynamic',
  'elicitation',
  'errors',
  'flow',
  'handler-context',
  'jsonschema',
  'lifecycle',
  'logging',
  'mrtr',
  'pagination',
  'prompts',
  'protocol',
  'resources',
  'roots',
  'sampling',
  'sep2243',
  'standard-schema',
  'subscriptions',
  'tools',
  'transport-sse',
  'validation',
];

interface Report {
  readonly numTotalTests: number;
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly title: string;
      readonly ancestorTitles: readonly string[];
    }[];
  }[];
}

/** A case by its requirement and transport, such as `tools:list [stdio 2025-11-25]`. */
type Failure = { readonly file: string; readonly name: string };

function run(folder: string, bridge: string, files: readonly string[]): Report {
  const suite = join(folder, 'test/e2e');
  const vitest = join(suite, 'node_modules/vitest/vitest.mjs');
  if (!existsSync(vitest))
    throw new Error(
      `${vitest} does not exist; give the folder of a checkout whose packages are installed`,
    );
  const out = mkdtempSync(join(tmpdir(), 'duolane-mcp-e2e-'));
  try {
    const report = join(out, 'report.json');
    const args = ['run', '--root', suite, '--config', CONFIG];
    const cases = files.map((file) => `scenarios/${file}.test.ts`);
    const { stderr } = spawnSync(
      process.execPath,
      [vitest, ...args, '--reporter=json', `--outputFile=${report}`, ...cases],
      {
        cwd: suite,
        env: {
          PATH: process.env['PATH'],
          HOME: out,
          DUOLANE_SDK_E2E: suite,
          DUOLANE_SDK_BRIDGE: bridge,
        },
        encoding: 'utf8',
        maxBuffer: 2 ** 28,
      },
    );
    if (!existsSync(report)) throw new Error(`the suite did not run:\n${stderr.slice(-2_000)}`);
    return JSON.parse(readFileSync(report, 'utf8')) as Report;
  } finally {
    rmSync(out, { recursive: true });
  }
}

function print(bridge: string, { numTotalTests, numPassedTests, testResults }: Report): Failure[] {
  console.log(`\n${bridge}: ${numPassedTests} of ${numTotalTests} cases pass`);
  return testResults.flatMap(({ name, assertionResults }) => {
    const file = basename(name, '.test.ts');
    const failed = assertionResults.filter(({ status }) => status !== 'passed');
    console.log(
      `  ${file}: ${assertionResults.length - failed.length} passed, ${failed.length} failed`,
    );
    return failed.map(({ ancestorTitles: [title = ''] }) => ({ file, name: title }));
  });
}

/** The requirements that conformance.md lists as failing, with the bridges for which they may. */
function explained(): ReadonlyMap<string, string> {
  const text = readFileSync(EXPLAINED, 'utf8');
  const section = /## The SDK's end-to-end suite[^]*?(?=\n## |$)/.exec(text)?.[0] ?? '';
  const rows = section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm);
  return new Map([...rows].map(([, name = '', bridges = '']) => [name, bridges]));
}

const [given = process.env['MCP_SDK_FOLDER'], only, ...files] = process.argv.slice(2);
if (given === undefined)
  throw new Error('missing folder: npx tsx scripts/mcp-e2e.ts <folder> [plain|grpc] [file…]');
const known = explained();
let surprises = 0;
for (const bridge of only === undefined ? ['plain', 'grpc'] : [only]) {
  const failures = print(bridge, run(resolve(given), bridge, files.length > 0 ? files : FILES));
  for (const { file, name } of failures) {
    const [requirement = ''] = name.split(' [');
    const isKnown = known.get(requirement)?.includes(bridge) ?? false;
    if (!isKnown) surprises += 1;
    console.log(`  ${isKnown ? 'explained' : 'NOT EXPLAINED'}: ${file} > ${name}`);
  }
}
process.exitCode = surprises > 0 ? 1 : 0;
