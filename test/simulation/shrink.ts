import { type AnyPlan, smallerThan } from './parts.ts';

/**
 * Returns the smallest plan that still fails: as long as a plan with one thing less fails, it takes
 * its place.
 */
export async function shrink(
  plan: AnyPlan,
  fails: (plan: AnyPlan) => Promise<boolean>,
  maxTries = 500,
): Promise<AnyPlan> {
  let smallest = plan;
  let tries = 0;
  for (let again = true; again && tries < maxTries;) {
    again = false;
    for (const next of smallerThan(smallest)) {
      if (++tries > maxTries) break;
      if (!(await fails(next))) continue;
      smallest = next;
      again = true;
      break;
    }
  }
  return smallest;
}

/** The plan as a person reads it: each member of a list on a line of its own. */
export function describePlan(plan: AnyPlan): string {
  const fields = Object.entries(plan) as [string, unknown][];
  const isList = ([, value]: [string, unknown]): boolean => Array.isArray(value);
  return [
    JSON.stringify(Object.fromEntries(fields.filter((field) => !isList(field)))),
    ...fields
      .filter(isList)
      .flatMap(([, items]) => (items as object[]).map((item) => `  ${JSON.stringify(item)}`)),
  ].join('\n');
}
