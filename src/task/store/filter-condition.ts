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
  // The index of states has no completed tasks, and databases use it only for a query that says so.
  // For a conversation its own index is the better one.
  if (state !== undefined && state !== 'completed' && context === undefined)
    given.push("state <> 'completed'");
  if (changedAfter !== undefined)
    given.push(`changed_at > ${placeholder(values.push(changedAfter))}`);
  return { where: given.length === 0 ? 'true' : given.join(' and '), values };
}
