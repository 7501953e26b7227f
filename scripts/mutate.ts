// `npm run mutate -- [group …] [--update] [--list]`: changes the code in small ways and looks whether
// a unit test notices. test/mutation/groups.ts has the groups; test/mutation/survivors.json has the
// mutants that no test notices. A survivor that is not in it fails; `--update` writes it again and
// keeps the reasons. `--list` prints the survivors.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';
import { GROUPS, type MutationGroup } from '../test/mutation/groups.ts';
import { instrument, type Mutant } from '../test/mutation/instrument.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const KEPT = join(ROOT, 'test/mutation/survivors.json');
/** Each file has as many numbers for its mutants. */
const PER_FILE = 10_000;

/** The reason of each mutant that no test notices, by name; `null` if it has none yet. */
type Survivors = Record<string, string | null>;

const { values, positionals } = parseArgs({
  options: {
    update: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const kept = JSON.parse(readFileSync(KEPT, 'utf8')) as Survivors;
const folder = mkdtempSync(join(tmpdir(), 'duolane-mutation-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const found: Survivors = {};
const tried = new Set<string>();
for (const name of positionals.length > 0 ? positionals : Object.keys(GROUPS)) {
  const group = GROUPS[name];
  if (!group)
    throw new Error(`unknown group "${name}": expected ${Object.keys(GROUPS).join(', ')}`);
  await mutate(name, group);
}
const isNew = (name: string): boolean => !(name in kept);
const gone = Object.keys(kept).filter((name) => tried.has(name) && !(name in found));
if (values.list) for (const name of Object.keys(found)) console.log(name);
if (values.update) {
  const rest = Object.entries(kept).filter(([name]) => isOther(name));
  const all = { ...Object.fromEntries(rest), ...found };
  const sorted = Object.fromEntries(Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(KEPT, `${JSON.stringify(sorted, null, 2)}\n`);
} else {
  for (const name of Object.keys(found).filter(isNew)) console.error(`survives: ${name}`);
  for (const name of gone) console.error(`no longer survives, remove it from the list: ${name}`);
  if (Object.keys(found).some(isNew)) process.exitCode = 1;
}

/** Whether a kept mutant belongs to a file that was not tried. */
function isOther(name: string): boolean {
  const file = name.slice(0, name.indexOf(':'));
  return ![...tried].some((each) => each.startsWith(`${file}:`));
}

async function mutate(group: string, { files, tests = files }: MutationGroup): Promise<void> {
  const sources = files.flatMap(filesBelow);
  const mutants = new Map<number, Mutant>();
  const code = new Map<string, string>();
  for (const [index, file] of sources.entries()) {
    const path = join(ROOT, 'src', file);
    const result = instrument(file, readFileSync(path, 'utf8'), index * PER_FILE);
    code.set(path, result.code);
    for (const [each, mutant] of result.mutants.entries())
      mutants.set(index * PER_FILE + each, mutant);
  }
  const result = join(folder, `${group}.json`);
  process.env['MUTATION_RESULT'] = result;
  const vitest = await startVitest(
    'test',
    [],
    {
      root: ROOT,
      config: false,
      watch: false,
      include: tests.map((path) =>
        path.endsWith('.ts') ? `src/${path}` : `src/${path}/**/*.test.ts`,
      ),
      runner: join(ROOT, 'test/mutation/mutation-runner.ts'),
      pool: 'forks',
      isolate: false,
      maxWorkers: 1,
      reporters: [{}],
      testTimeout: 3_600_000,
      hookTimeout: 300_000,
      expect: { poll: { timeout: 2000 } },
      dangerouslyIgnoreUnhandledErrors: true,
    },
    {
      plugins: [
        {
          name: 'mutants',
          enforce: 'pre',
          load: (id) => code.get(id.split('?', 1)[0] ?? ''),
        },
      ],
    },
  );
  const unloaded = vitest.state
    .getTestModules()
    .filter((module) => module.children.size === 0 || module.errors().length > 0)
    .map((module) => `${module.relativeModuleId}: ${module.errors()[0]?.message ?? 'no tests'}`);
  await vitest.close();
  if (unloaded.length > 0) throw new Error(`tests cannot be loaded:\n${unloaded.join('\n')}`);
  process.exitCode = 0;
  const { reached, killed } = JSON.parse(readFileSync(result, 'utf8')) as {
    reached: number[];
    killed: number[];
  };
  const isKilled = new Set(killed);
  for (const [id, { name }] of mutants) {
    tried.add(name);
    if (!isKilled.has(id)) found[name] = kept[name] ?? null;
  }
  const share = ((100 * killed.length) / mutants.size).toFixed(1);
  console.log(
    `${group.padEnd(8)} ${sources.length} files, ${mutants.size} mutants, ${reached.length} reached by a test, ${killed.length} killed (${share} %)`,
  );
}

function filesBelow(path: string): readonly string[] {
  const full = join(ROOT, 'src', path);
  if (statSync(full).isFile()) return [path];
  return readdirSync(full, { recursive: true, encoding: 'utf8' })
    .map((file) => `${path}/${file.replaceAll('\\', '/')}`)
    .filter((file) => /(?<!\.test)\.ts$/.test(file) && !/\/(index|types)\.ts$|\/gen\//.test(file))
    .toSorted();
}
