import { type HostPlan, planHost, smallerHostPlans } from './host/plan.ts';
import { runHost } from './host/run-host.ts';
import { PART_NAMES, type PartName } from './part-names.ts';
import { type Plan, planTasks, smallerPlans } from './tasks/plan.ts';
import { runTasks } from './tasks/run-tasks.ts';
import type { World } from './world.ts';

/** One schedule of one part of the product. */
export type AnyPlan = Plan | HostPlan;

/** The plan of a seed. Without a part, the seeds take turns. */
export function planOf(seed: number, only?: PartName): AnyPlan {
  const part = only ?? PART_NAMES[seed % PART_NAMES.length];
  return part === 'host' ? planHost(seed) : planTasks(seed);
}

export const runPlan = (world: World, plan: AnyPlan): Promise<void> =>
  plan.part === 'host' ? runHost(world, plan) : runTasks(world, plan);

/** Plans that have one thing less than this one, the largest change first. */
export const smallerThan = (plan: AnyPlan): Generator<AnyPlan> =>
  plan.part === 'host' ? smallerHostPlans(plan) : smallerPlans(plan);
