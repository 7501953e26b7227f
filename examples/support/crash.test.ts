import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { checkLaws, type Entry } from 'duolane/event';
import { openBoard } from '../tickets/board.ts';

// A process that runs a sample is killed with SIGKILL after an event; another one, with an empty home
// and temporary folder, goes on. Only the log and the effects are shared.

/** Every event is a point to kill at. Each costs two processes, so by default one is tried. */
const EVERYWHERE = process.env['DUOLANE_KILL_EVERYWHERE'] === '1';
const PROGRAM = fileURLToPath(new URL('./crash.ts', import.meta.url));

const folder = mkdtempSync(join(tmpdir(), 'duolane-samples-'));
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

let homes = 0;

/** Runs the sample in a process of its own. Returns the entries, or undefined if it was killed. */
async function run(
  sample: string,
  shared: string,
  killAt = 0,
): Promise<readonly Entry[] | undefined> {
  const home = join(folder, `home-${++homes}`);
  mkdirSync(home, { recursive: true });
  const child = spawn(process.execPath, ['--import', 'tsx', PROGRAM, sample, shared, `${killAt}`], {
    env: {
      PATH: process.env['PATH'],
      HOME: home,
      TMPDIR: home,
      TICKETS_FILE: join(shared, 'tickets.sqlite'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (err += String(chunk)));
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.on('close', (...end) => resolve(end)),
  );
  if (signal === 'SIGKILL') return undefined;
  if (code !== 0) throw new Error(`exit ${code}: ${err}`);
  return JSON.parse(out) as readonly Entry[];
}

interface Ended {
  readonly entries: readonly Entry[];
  readonly effects: readonly string[];
}

async function play(sample: string, killAt?: number): Promise<Ended> {
  const shared = join(folder, `${sample}-${killAt ?? 'whole'}`);
  mkdirSync(shared, { recursive: true });
  const killed = killAt === undefined ? undefined : await run(sample, shared, killAt);
  const entries = killed ?? (await run(sample, shared)) ?? [];
  return { entries, effects: effectsOf(sample, shared) };
}

function effectsOf(sample: string, shared: string): readonly string[] {
  if (sample === 'ai-doctor')
    return readFileSync(join(shared, 'effects'), 'utf8').trim().split('\n').toSorted();
  if (sample !== 'tickets') return [];
  const board = openBoard(join(shared, 'tickets.sqlite'));
  return board.list().map(({ id, title }) => `${id} ${title}`);
}

/** What readers are left with: the text, the artifacts, and how the run ended. */
const outcomeOf = (
  entries: readonly Entry[],
): { readonly artifacts: unknown; readonly ends: readonly (readonly [string, string])[] } => ({
  artifacts: entries.flatMap((entry) => (entry.type === 'artifact' ? [entry.parts] : [])).at(-1),
  ends: entries.flatMap((entry) =>
    entry.type === 'run.finished' && entry.outcome !== 'input-required'
      ? [[entry.outcome, entry.text] as const]
      : [],
  ),
});

/** The effects that happened twice although their calls had ended before the kill. */
function repeatedOf({ entries, effects }: Ended, killAt: number): readonly string[] {
  const before = entries.filter(({ seq }) => seq <= killAt);
  const isOver = (callId: string): boolean =>
    before.some((entry) => entry.type === 'tool.completed' && entry.callId === callId);
  const finished = before.flatMap((entry) =>
    entry.type === 'tool.called' && isOver(entry.callId) ? [JSON.stringify(entry.args)] : [],
  );
  const twice = effects.filter((effect, at) => effects.indexOf(effect) < at);
  return twice.filter((effect) => {
    const query = JSON.stringify(effect.replace(/^\S+ /, ''));
    return finished.some((args) => args.includes(query)) || !effect.startsWith('search ');
  });
}

const questions = (entries: readonly Entry[]): readonly string[] =>
  entries.flatMap((entry) => (entry.type === 'input.required' ? [entry.request.id] : []));

for (const sample of ['ai-doctor', 'tickets', 'distill', 'chat'])
  test(`${sample} goes on after kill -9, and does no finished step again`, async () => {
    const whole = await play(sample);
    expect(whole.entries.at(-1)).toMatchObject({ outcome: 'completed' });
    const last = whole.entries.length - 1;
    // By default in the middle of the last call of a tool.
    const inCall = whole.entries.findLast(({ type }) => type === 'tool.called')?.seq ?? 2;
    for (let killAt = EVERYWHERE ? 2 : inCall; killAt <= (EVERYWHERE ? last : inCall); killAt++) {
      const ended = await play(sample, killAt);
      const where = `${sample}, killed after entry ${killAt} of ${last + 1}`;
      expect(checkLaws(ended.entries), where).toEqual([]);
      expect(outcomeOf(ended.entries), where).toEqual(outcomeOf(whole.entries));
      // A search that was under way may be made again; one whose result the log had is not.
      expect([...new Set(ended.effects)], where).toEqual([...new Set(whole.effects)]);
      expect(repeatedOf(ended, killAt), where).toEqual([]);
      expect(questions(ended.entries).length, where).toBe(questions(whole.entries).length);
    }
  }, 900_000);
