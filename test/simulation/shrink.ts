import type { Plan } from './tasks/plan.ts';

/** Plans that have one thing less than this one, the largest change first. */
function* smallerPlans(plan: Plan): Generator<Plan> {
  const { happenings, callFaults, agents } = plan;
  for (let size = happenings.length; size >= 1; size = size >> 1)
    for (let from = 0; from < happenings.length; from += size)
      yield { ...plan, happenings: happenings.toSpliced(from, size) };
  if (callFaults.length > 0) yield { ...plan, callFaults: [] };
  for (const index of callFaults.keys())
    yield { ...plan, callFaults: callFaults.toSpliced(index, 1) };
  if (plan.machines > 1) yield { ...plan, machines: plan.machines - 1 };
  for (const [index, agent] of agents.entries())
    for (const action of agent.actions.keys()) {
      const actions = agent.actions.toSpliced(action, 1);
      yield { ...plan, agents: agents.with(index, { ...agent, actions }) };
    }
  if (plan.throwingLogger) yield { ...plan, throwingLogger: false };
  if (plan.person.twice > 0) yield { ...plan, person: { ...plan.person, twice: 0 } };
}

/**
 * Returns the smallest plan that still fails: as long as a plan with one thing less fails, it takes
 * its place. A machine that no longer exists is replaced by one that does.
 */
export async function shrink(
  plan: Plan,
  fails: (plan: Plan) => Promise<boolean>,
  maxTries = 500,
): Promise<Plan> {
  let smallest = plan;
  let tries = 0;
  for (let again = true; again && tries < maxTries;) {
    again = false;
    for (const each of smallerPlans(smallest)) {
      if (++tries > maxTries) break;
      const next = withExistingMachines(each);
      if (!(await fails(next))) continue;
      smallest = next;
      again = true;
      break;
    }
  }
  return smallest;
}

const withExistingMachines = (plan: Plan): Plan => ({
  ...plan,
  happenings: plan.happenings.map((it) => ('on' in it ? { ...it, on: it.on % plan.machines } : it)),
});

/** The plan as a person reads it. */
export function describePlan({ happenings, callFaults, agents, ...rest }: Plan): string {
  const line = (it: object): string => `  ${JSON.stringify(it)}`;
  return [
    JSON.stringify(rest),
    ...agents.map(line),
    ...happenings.map(line),
    ...callFaults.map(line),
  ].join('\n');
}
