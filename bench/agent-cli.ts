/**
 * Measures the time from the start of the agent CLI to its response to `initialize`, and its memory
 * then: `npx tsx bench/agent-cli.ts [--official] [--json]`, after `npm run build`. If
 * `peers/claude-cli-2.1` is installed, the official CLI alternates with ours; `--official` installs
 * it first (350 MB). Exits with 1 if a limit is missed.
 */
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ProcessOptions, type ProcessTransport, spawnProcess } from '../src/process/index.ts';
import { JsonlDecoder, InvalidLine } from '../src/wire/index.ts';
import { findRealCli, realCli } from '../test/support/real-cli.ts';

const ROUNDS = 15;
const LIMITS = { start: 0.6, memory: 0.35 };
/** Figures of the official CLI from an earlier run, used where it is not installed. */
const REMEMBERED = { ms: 270, mb: 241 };
/** An address without a server: the benchmark sends no request that needs a model. */
const NO_MODEL = 'http://127.0.0.1:1';

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

interface Sample {
  readonly ms: number;
  readonly mb: number;
}

/** Starts a CLI, sends `initialize`, and measures its memory after the response. */
async function measure(cli: ProcessOptions): Promise<Sample> {
  const begun = performance.now();
  await using child = spawnProcess(cli);
  child.write('{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n');
  await answered(child);
  return { ms: performance.now() - begun, mb: residentMb(child.pid) };
}

async function answered(child: ProcessTransport): Promise<void> {
  const decoder = new JsonlDecoder();
  for await (const chunk of child.output) {
    for (const frame of decoder.decode(chunk))
      if (!(frame instanceof InvalidLine) && frame['type'] === 'control_response') return;
  }
  const { code, stderr } = await child.exited;
  throw new Error(`the CLI ended (code ${code}) without a response: ${stderr}`);
}

/** The resident memory of a process; 0 without /proc. */
function residentMb(pid: number | undefined): number {
  const file = `/proc/${pid}/status`;
  const status = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
const summary = (samples: readonly Sample[]): Sample => ({
  ms: Math.round(median(samples.map(({ ms }) => ms))),
  mb: Math.round(median(samples.map(({ mb }) => mb))),
});

const wanted =
  process.argv.includes('--official') || existsSync(path('../peers/claude-cli-2.1/node_modules'));
const found = wanted ? await findRealCli('claude-cli-2.1') : undefined;
if (found?.missing !== undefined) process.stderr.write(`${found.missing}\n`);
const official = found?.missing === undefined ? found?.command : undefined;

// Each CLI keeps its home over all rounds, because the setup of a first start is not measured.
await using ownPlace = realCli({ command: process.execPath, modelUrl: NO_MODEL });
await using officialPlace = realCli({ command: official ?? '', modelUrl: NO_MODEL });
const script = join(ownPlace.cwd, 'script.json');
await writeFile(script, '[]');
const own = [
  path('../dist/agent-cli/main.js'),
  ...(ownPlace.args ?? []),
  `--model=script:${script}`,
];
const [ours, theirs]: [Sample[], Sample[]] = [[], []];
for (let round = 0; round < ROUNDS; round++) {
  ours.push(await measure({ ...ownPlace, args: own }));
  if (official !== undefined) theirs.push(await measure(officialPlace));
}

const mine = summary(ours);
const other = theirs.length > 0 ? summary(theirs) : REMEMBERED;
const ratio = { start: mine.ms / other.ms, memory: mine.mb / other.mb };
const passed = ratio.start <= LIMITS.start && ratio.memory <= LIMITS.memory;
if (process.argv.includes('--json')) {
  const sideBySide = theirs.length > 0;
  console.log(JSON.stringify({ ours: mine, official: other, sideBySide, ratio, LIMITS, passed }));
} else {
  const how =
    theirs.length > 0 ? 'official CLI' : 'official CLI, not installed, from an earlier run';
  const line = (what: string, a: string, b: string, r: number, limit: number): void =>
    console.log(`${what}: ${a} (${how}: ${b}), ${r.toFixed(2)}x, at most ${limit}x`);
  line('start to initialize', `${mine.ms} ms`, `${other.ms} ms`, ratio.start, LIMITS.start);
  line('resident memory', `${mine.mb} MB`, `${other.mb} MB`, ratio.memory, LIMITS.memory);
}
process.exitCode = passed ? 0 : 1;
