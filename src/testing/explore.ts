import { writeFile } from 'node:fs/promises';
import { invalid } from '../errors.ts';
import { describeSchedule, shrinkSchedule } from './kernel/shrink.ts';
import { runInWorld } from './kernel/run-in-world.ts';
import type { World } from './kernel/world.ts';
import type { AgentSimulation, SimulationReport, ToolSimulation } from './types.ts';

/** What `explore` needs to know of agents, or of tools. */
export interface Explored<Schedule extends { readonly seed: number }> {
  readonly plan: (seed: number) => Schedule;
  readonly run: (world: World, schedule: Schedule) => Promise<void>;
  readonly smaller: (schedule: Schedule) => Iterable<Schedule>;
  /** The recording of the last run, as the lines of a file that `duolane replay` reads. */
  readonly recording: () => readonly string[];
}

/** How many of the last events of a failed run are part of the error. */
const SHOWN = 40;

/** Runs the schedules of the seeds. Throws `invalid` with the smallest one that breaks a law. */
export async function explore<Schedule extends { readonly seed: number }>(
  explored: Explored<Schedule>,
  options: AgentSimulation | ToolSimulation,
): Promise<SimulationReport> {
  const { seed: first = 1, schedules = 100, signal, reset = () => {} } = options;
  const faults: Record<string, number> = {};
  let [events, simulatedMs, hash] = [0, 0, 0];
  const play = (schedule: Schedule, trace = false): Promise<World> => {
    signal?.throwIfAborted();
    reset();
    return runInWorld(schedule.seed, { trace }, (world) => explored.run(world, schedule));
  };
  for (let seed = first; seed < first + schedules; seed++) {
    const schedule = explored.plan(seed);
    const world = await play(schedule);
    events += world.events;
    simulatedMs += world.now;
    hash = (Math.imul(hash, 31) + Number.parseInt(world.traceHash, 16)) >>> 0;
    for (const [what, count] of world.counts) faults[what] = (faults[what] ?? 0) + count;
    const [broken] = world.violations;
    if (broken) throw await failureOf(explored, schedule, broken.law, play, options.file);
  }
  return {
    schedules,
    events,
    simulatedMs: Math.round(simulatedMs),
    faults,
    hash: hash.toString(16),
  };
}

async function failureOf<Schedule extends { readonly seed: number }>(
  explored: Explored<Schedule>,
  schedule: Schedule,
  law: string,
  play: (schedule: Schedule, trace?: boolean) => Promise<World>,
  file: string | undefined,
): Promise<Error> {
  const breaks = async (each: Schedule): Promise<boolean> =>
    (await play(each)).violations[0]?.law === law;
  const smallest = await shrinkSchedule(schedule, explored.smaller, breaks);
  const world = await play(smallest, true);
  const { seed } = schedule;
  const what = world.violations[0]?.what ?? 'it is not broken when the schedule is run again';
  if (file !== undefined)
    await writeFile(
      file,
      explored.recording().map((line) => `${line}\n`),
    );
  return invalid(
    [
      `law "${law}" broken by seed ${seed}: ${what}`,
      `the smallest schedule that breaks it: ${describeSchedule(smallest)}`,
      `its last events:\n${(world.lines ?? []).slice(-SHOWN).join('\n')}`,
      `to repeat it, use { seed: ${seed}, schedules: 1 }` +
        (file === undefined
          ? '; to see it, set file'
          : `; to see it: duolane replay ${file} --open`),
    ].join('\n\n'),
  );
}
