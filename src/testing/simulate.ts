import { invalid } from '../errors.ts';
import { encodeEntry } from '../event/entry-codec.ts';
import type { Agent } from '../event/types.ts';
import { asToolSource, type SdkServer } from '../mcp/json-rpc/in-process.ts';
import type { ToolSource } from '../mcp/types.ts';
import { explore } from './explore.ts';
import { runInWorld } from './kernel/run-in-world.ts';
import type { World } from './kernel/world.ts';
import {
  type AgentSchedule,
  planAgentRun,
  quietSchedule,
  smallerAgentRuns,
} from './tasks/agent-schedule.ts';
import { runAgent } from './tasks/run-agent.ts';
import { recordingOf } from './tools/recording.ts';
import { runTools, type SimulatedCalls } from './tools/run-tools.ts';
import { planToolRun, quietCall, smallerToolRuns } from './tools/tool-schedule.ts';
import type {
  AgentFault,
  AgentSimulation,
  SimulatedRun,
  SimulationReport,
  ToolFault,
  ToolSimulation,
} from './types.ts';

const AGENT_FAULTS: readonly AgentFault[] = [
  'crash',
  'drain',
  'stop',
  'store',
  'cancel',
  'readers',
  'answers',
];
const TOOL_FAULTS: readonly ToolFault[] = ['parallel', 'abort', 'cut', 'readers'];

/**
 * Runs an agent, or tools, with faults, in simulated time, and checks the laws after each run:
 * first without faults, then one schedule for each seed. An agent runs on the real runner and task
 * log; tools are called by the real client over the real server. Throws `invalid` with the smallest
 * schedule that breaks a law.
 *
 * While it runs, timers, dates and random numbers of this process are simulated and `fetch` is
 * refused: run nothing else at the same time. Simulated time waits for no file and no socket, so
 * the subject uses fakes in memory for them.
 *
 * @example
 * ```ts
 * await simulate(agent, { schedules: 200, faults: ['crash', 'cancel'] });
 * ```
 */
export function simulate(agent: Agent, options?: AgentSimulation): Promise<SimulationReport>;
export function simulate(
  tools: ToolSource | SdkServer,
  options: ToolSimulation,
): Promise<SimulationReport>;
export async function simulate(
  subject: Agent | ToolSource | SdkServer,
  options: AgentSimulation | ToolSimulation = {},
): Promise<SimulationReport> {
  checkCounts(options);
  if (typeof subject === 'function') return simulateAgent(subject, options as AgentSimulation);
  return simulateTools(await asToolSource(subject), options as ToolSimulation);
}

async function simulateAgent(agent: Agent, options: AgentSimulation): Promise<SimulationReport> {
  const { seed = 1, faults = AGENT_FAULTS, same = textAndOutput, laws = {} } = options;
  checkNames('fault', faults, AGENT_FAULTS);
  let last: SimulatedRun | undefined;
  const quiet = await withoutFaults(options, seed, async (world) => {
    last = await runAgent(world, quietSchedule(seed), agent, options);
  });
  if (last?.outcome !== 'completed')
    throw invalid(
      `cannot simulate: without faults the run ends as ${last?.outcome ?? 'nothing'}: ${last?.error?.message ?? 'expected completed'}`,
    );
  const expected = JSON.stringify(same(last));
  const length = { entries: last.entries.length, ms: quiet.now };
  const run = async (world: World, schedule: AgentSchedule): Promise<void> => {
    last = undefined;
    last = await runAgent(world, schedule, agent, options);
    if (!last) return;
    for (const [law, check] of Object.entries(laws)) {
      const problem = check(last);
      if (problem !== undefined) world.broken(law, problem);
    }
    const isCanceled = last.entries.some(({ type }) => type === 'cancel.requested');
    if (isCanceled || mayBeInterrupted(agent, last)) return;
    const found = last.outcome === 'completed' ? JSON.stringify(same(last)) : describe(last);
    if (found !== expected)
      world.broken('a run is the same with and without faults', `${found}, not ${expected}`);
  };
  return explore<AgentSchedule>(
    {
      plan: (each) => planAgentRun(each, faults, length),
      run,
      smaller: smallerAgentRuns,
      recording: () => (last?.entries ?? []).map(encodeEntry),
    },
    options,
  );
}

const textAndOutput = ({ text, output }: SimulatedRun): unknown => ({ text, output });

const describe = ({ outcome, error }: SimulatedRun): string =>
  `${outcome}: ${error?.code} ${error?.message}`;

/** A run that cannot be resumed, or had stored no step yet, may end with its process. */
const mayBeInterrupted = (agent: Agent, { outcome, error }: SimulatedRun): boolean =>
  outcome === 'failed' && error?.code === 'interrupted' && agent.resumable !== true;

async function simulateTools(
  source: ToolSource,
  options: ToolSimulation,
): Promise<SimulationReport> {
  const { seed = 1, calls, faults = TOOL_FAULTS, laws = {} } = options;
  const { same = ({ isError = false }) => isError } = options;
  checkNames('fault', faults, TOOL_FAULTS);
  if (!Array.isArray(calls) || calls.length === 0)
    throw invalid('invalid calls: expected at least one call, e.g. [{ name: "echo", args: {} }]');
  let last: SimulatedCalls | undefined;
  const expected: string[] = [];
  const times: number[] = [];
  for (const [index, { name }] of calls.entries()) {
    await withoutFaults(options, seed, async (world) => {
      last = await runTools(world, quietCall(seed, index), source, options);
    });
    const [first] = last?.results ?? [];
    if (!first)
      throw invalid(`cannot simulate: without faults the call of "${name}" has no result`);
    expected.push(JSON.stringify(same(first.result, calls[index]!)));
    times.push(last?.ms ?? 0);
  }
  return explore(
    {
      plan: (each) => planToolRun(each, faults, times),
      smaller: smallerToolRuns,
      recording: () => recordingOf(last?.messages ?? []),
      run: async (world, schedule) => {
        last = await runTools(world, schedule, source, options);
        for (const { call, result } of last.results) {
          const found = JSON.stringify(same(result, calls[call]!));
          if (found !== expected[call])
            world.broken(
              'a result is the same with and without faults',
              `"${calls[call]?.name}": ${found}, not ${expected[call]}`,
            );
        }
        for (const [law, check] of Object.entries(laws)) {
          const problem = check();
          if (problem !== undefined) world.broken(law, problem);
        }
      },
    },
    options,
  );
}

/** Runs the subject without faults, and throws the first law that it breaks. */
async function withoutFaults(
  { reset, signal }: AgentSimulation | ToolSimulation,
  seed: number,
  work: (world: World) => Promise<void>,
): Promise<World> {
  signal?.throwIfAborted();
  reset?.();
  const world = await runInWorld(seed, { trace: false }, work);
  const [broken] = world.violations;
  if (broken) throw invalid(`law "${broken.law}" broken without faults: ${broken.what}`);
  return world;
}

function checkCounts({ seed = 1, schedules = 100 }: AgentSimulation | ToolSimulation): void {
  for (const [name, value] of Object.entries({ seed, schedules }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw invalid(`invalid ${name} "${value}": expected a whole number from 1`);
}

function checkNames(kind: string, names: readonly string[], known: readonly string[]): void {
  for (const name of names)
    if (!known.includes(name))
      throw invalid(`unknown ${kind} "${name}": expected one of ${known.join(', ')}`);
}
