import type { SqliteValue } from './driver.ts';
import type { TaskFilter } from '../types.ts';

/** Converts a filter of tasks to an SQL condition and its values. */
export function condition(filter: TaskFilter): {
  readonly where: string;
  readonly values: SqliteValue[];
} {
  const { agent, owner, tenant, context, state, changedAfter } = filter;
  const given = (
    [
      ['agent = ?', agent],
      ['owner = ?', owner],
      ['tenant = ?', tenant],
      ['context = ?', context],
      ['state = ?', state],
      ['changed_at > ?', changedAfter],
    ] as const
  ).flatMap(([sql, value]) => (value === undefined ? [] : [{ sql, value }]));
  return {
    where: ['1', ...given.map(({ sql }) => sql)].join(' and '),
    values: given.map(({ value }) => value),
  };
}
