import { type A2APlan, planA2A, smallerA2APlans } from './a2a/plan.ts';
import { runA2A } from './a2a/run-a2a.ts';
import { type HostPlan, planHost, smallerHostPlans } from './host/plan.ts';
import { runHost } from './host/run-host.ts';
import { type McpPlan, planMcp, smallerMcpPlans } from './mcp/plan.ts';
import { runMcp } from './mcp/run-mcp.ts';
import { PART_NAMES, type PartName } from './part-names.ts';
import { type Plan, planTasks, smallerPlans } from './tasks/plan.ts';
import { runTasks } from './tasks/run-tasks.ts';
import type { World } from './world.ts';

/** One schedule of one part of the product. */
export type AnyPlan = Plan | HostPlan | A2APlan | McpPlan;

/** How a part is planned, run and shrunk. */
interface Part<P extends AnyPlan> {
  plan(seed: number): P;
  run(world: World, plan: P): Promise<void>;
  /** Plans that have one thing less than this one, the largest change first. */
  smaller(plan: P): Generator<P>;
}

const PARTS: { readonly [Name in PartName]: Part<AnyPlan & { readonly part: Name }> } = {
  tasks: { plan: planTasks, run: runTasks, smaller: smallerPlans },
  host: { plan: planHost, run: runHost, smaller: smallerHostPlans },
  a2a: { plan: planA2A, run: runA2A, smaller: smallerA2APlans },
  mcp: { plan: planMcp, run: runMcp, smaller: smallerMcpPlans },
};

const partOf = ({ part }: AnyPlan): Part<AnyPlan> => PARTS[part];

/** The plan of a seed. Without a part, the seeds take turns. */
export function planOf(seed: number, only?: PartName): AnyPlan {
  const part = only ?? PART_NAMES[seed % PART_NAMES.length] ?? 'tasks';
  return PARTS[part].plan(seed);
}

export const runPlan = (world: World, plan: AnyPlan): Promise<void> =>
  partOf(plan).run(world, plan);

export const smallerThan = (plan: AnyPlan): Generator<AnyPlan> => partOf(plan).smaller(plan);
