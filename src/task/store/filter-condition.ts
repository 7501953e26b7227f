import type { TaskFilter } from '../types.ts';

/**
 * Converts a filter of tasks to an SQL condition and its values. `placeholder` returns the
 * placeholder of a value by its number, which begins at 1.
 */
export function filterCondition(
  { agent, owner, tenant, context, state, changedAfter }: TaskFilter,
  placeholder: (number: number) => string,
): { readonly where: string; readonly values: (string | number)[] } {
  const values: (string | number)[] = [];
  const given = Object.entries({ agent, owner, tenant, context, state }).flatMap(
    ([column, value]) =>
      value === undefined ? [] : [`${column} = ${placeholder(values.push(value))}`],
  );
  if (changedAfter !== undefined)
    given.push(`changed_at > ${placeholder(values.push(changedAfter))}`);
  return { where: given.length === 0 ? 'true' : given.join(' and '), values };
}
