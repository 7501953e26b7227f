import type { SqlPlan } from './plan.ts';
import type { Row } from './preview.ts';
import type { QueryResult } from './warehouse.ts';

const MAX_ITEMS = 20;
const format = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

/** Describes the result as text. Its figures come from the rows, never from a model. */
export function summarize({ explanation }: SqlPlan, result: QueryResult): string {
  const { rowCount, columns, preview } = result;
  const [first] = preview;
  const about = explanation.replace(/\.$/, '');
  if (rowCount === 0) return `${about}: there are no rows.`;
  if (rowCount === 1 && first)
    return `${about}: ${some(columns.map((name) => `${plain(name)} ${say(first[name])}`))}.`;
  const count = rowCount === 1 ? 'one row' : `${format.format(rowCount)} rows`;
  const [label, value] = series(columns, preview);
  if (rowCount > preview.length || label === undefined || value === undefined)
    return `${about}: ${count}, with ${some(columns.map(plain))}.`;
  const ranked = preview.toSorted((a, b) => Number(b[value]) - Number(a[value]));
  const [highest, lowest] = [ranked[0] as Row, ranked.at(-1) as Row];
  const named = (row: Row): string => `${say(row[label])} (${say(row[value])})`;
  return `${about}: ${count}. Highest ${named(highest)}, lowest ${named(lowest)}.`;
}

/** The first column of words and the last of numbers, if there are both. */
const series = (
  columns: readonly string[],
  rows: readonly Row[],
): readonly [string | undefined, string | undefined] => [
  columns.find((name) => rows.every((row) => typeof row[name] === 'string')),
  columns.findLast((name) => rows.every((row) => typeof row[name] === 'number')),
];

/** A list that a person still reads. */
const some = (items: readonly string[]): string =>
  items.length > MAX_ITEMS
    ? `${items.slice(0, MAX_ITEMS).join(', ')} and ${items.length - MAX_ITEMS} more`
    : items.join(', ');

const plain = (name: string): string => name.replaceAll('_', ' ');

function say(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (typeof value === 'number') return format.format(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}
