import { shrinkSchedule } from '../../src/testing/kernel/shrink.ts';
import { type AnyPlan, smallerThan } from './parts.ts';

export { describeSchedule as describePlan } from '../../src/testing/kernel/shrink.ts';

/** Returns the smallest plan that still fails. */
export const shrink = (
  plan: AnyPlan,
  fails: (plan: AnyPlan) => Promise<boolean>,
): Promise<AnyPlan> => shrinkSchedule(plan, smallerThan, fails);
