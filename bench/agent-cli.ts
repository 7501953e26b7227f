/**
 * How long the agent takes from its start to the answer to `initialize`, and how much memory it then
 * holds: `npx tsx bench/agent-cli.ts [--json]`, after `npm run build`. Side by side with the official
 * CLI when `peers/claude-cli-2.1` is installed. Exits with 1 when a limit is passed.
 */
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { spawnProcess } from '../src/process/index.ts';

const ROUNDS = 15;
/** Against the official CLI where it is there, else against what it took on the machine of the issue. */
const START_RATIO = 0.6;
const MEMORY_RATIO = 0.35;
const OFFICIAL = { ms: 270, mb: 241 };

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const native = `../peers/claude-cli-2.1/node_modules/@anthropic-ai/claude-agent-sdk-${process.platform}-${process.arch}/claude`;
const flags = [
  '--output-format',
  'stream-json',
  '--verbose',
  '--input-format',
  'stream-json',
  '--tools=',
];

interface Sample {
  readonly ms: number;
  readonly mb: number;
}

async function start(command: string, args: readonly string[], home: string): Promise<Sample> {
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    CLAUDE_CONFIG_DIR: join(home, 'config'),
    ANTHROPIC_API_KEY: 'dummy-key',
    ANTHROPIC_BASE_URL: 'http://127.0.0.1:1',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_TELEMETRY: '1',
    DISABLE_AUTOUPDATER: '1',
  };
  const begun = performance.now();
  await using child = spawnProcess({ command, args: [...args, ...flags], cwd: home, env });
  child.write('{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n');
  for await (const _ of child.output) break;
  const ms = performance.now() - begun;
  const status = existsSync(`/proc/${child.pid}/status`)
    ? readFileSync(`/proc/${child.pid}/status`, 'utf8')
    : '';
  return { ms, mb: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024 };
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;
const summary = (samples: readonly Sample[]): Sample => ({
  ms: Math.round(median(samples.map(({ ms }) => ms))),
  mb: Math.round(median(samples.map(({ mb }) => mb))),
});

const home = await mkdtemp(join(tmpdir(), 'duolane-bench-'));
const script = join(home, 'script.json');
await writeFile(script, '[]');
const ours: Sample[] = [];
const theirs: Sample[] = [];
for (let round = 0; round < ROUNDS; round++) {
  ours.push(
    await start(
      process.execPath,
      [path('../dist/agent-cli/main.js'), `--model=script:${script}`],
      home,
    ),
  );
  if (existsSync(path(native))) theirs.push(await start(path(native), [], home));
}
await rm(home, { recursive: true, force: true });

const official = theirs.length > 0 ? summary(theirs) : OFFICIAL;
const measured = summary(ours);
const limits = { ms: official.ms * START_RATIO, mb: official.mb * MEMORY_RATIO };
const passed = measured.ms <= limits.ms && measured.mb <= limits.mb;
const report = { measured, official, measuredOfficial: theirs.length > 0, limits, passed };
if (process.argv.includes('--json')) console.log(JSON.stringify(report));
else {
  console.log(`start to initialize: ${measured.ms} ms (at most ${Math.round(limits.ms)})`);
  console.log(`resident memory: ${measured.mb} MB (at most ${Math.round(limits.mb)})`);
  console.log(
    theirs.length > 0
      ? `official CLI: ${official.ms} ms, ${official.mb} MB`
      : 'official CLI: not installed',
  );
}
process.exitCode = passed ? 0 : 1;
