/**
 * Returns the smallest schedule that still fails: as long as a schedule with one thing less fails,
 * it takes its place.
 */
export async function shrinkSchedule<Schedule>(
  schedule: Schedule,
  smallerThan: (schedule: Schedule) => Iterable<Schedule>,
  fails: (schedule: Schedule) => Promise<boolean>,
  maxTries = 500,
): Promise<Schedule> {
  let smallest = schedule;
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

/** The schedule as a person reads it: each member of a list on a separate line. */
export function describeSchedule(schedule: object): string {
  const fields = Object.entries(schedule) as [string, unknown][];
  const isList = ([, value]: [string, unknown]): boolean => Array.isArray(value);
  return [
    JSON.stringify(Object.fromEntries(fields.filter((field) => !isList(field)))),
    ...fields
      .filter(isList)
      .flatMap(([, items]) => (items as object[]).map((item) => `  ${JSON.stringify(item)}`)),
  ].join('\n');
}
