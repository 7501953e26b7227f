import { CATEGORIES, CITIES, literal, PRODUCTS, SEGMENTS, STATUSES, YEARS } from './data.ts';
import type { SqlPlan } from './plan.ts';

/** What the rules understand, for people. README.md has the same. */
export const GRAMMAR: string = `I understand, by rules and without a language model:
  <measure> [filters] [by <dimension>]        revenue by city in 2025
  top <n> <dimension> by <measure> [filters]  top 3 products by revenue in Lyon
  list [<n>] orders [filters]                 list 10 returned orders in 2024
  sql <a single SELECT>                       sql select count(*) from orders
  measures: revenue, orders, units, average order
  dimensions: city, segment, category, product, customer, month, year, status
  filters: a city, segment, category, product or status; a year (${YEARS.join(', ')}) or a month (March 2025)`;

const MEASURES = {
  revenue: { sql: 'sum(revenue)', column: 'revenue', words: 'Revenue' },
  orders: { sql: 'count(*)', column: 'orders', words: 'Number of orders' },
  units: { sql: 'sum(units)', column: 'units', words: 'Units sold' },
  average: { sql: 'round(avg(revenue), 2)', column: 'average_order', words: 'Average order' },
} as const;
type Measure = (typeof MEASURES)[keyof typeof MEASURES];

const MEASURE_WORDS: Readonly<Record<string, keyof typeof MEASURES>> = {
  revenue: 'revenue',
  sales: 'revenue',
  turnover: 'revenue',
  orders: 'orders',
  units: 'units',
  quantity: 'units',
  average: 'average',
};

const DIMENSIONS: Readonly<Record<string, string>> = Object.fromEntries(
  ['city', 'segment', 'product', 'customer', 'month', 'year', 'category', 'status'].flatMap(
    (name) => [
      [name, name],
      [name.endsWith('y') ? `${name.slice(0, -1)}ies` : `${name}s`, name],
    ],
  ),
);

const MONTHS =
  'january february march april may june july august september october november december'.split(
    ' ',
  );

/** Every value that may be a filter, with its column. */
const VALUES: ReadonlyMap<string, { readonly column: string; readonly value: string }> = new Map(
  [
    ...CITIES.map((value) => ({ column: 'city', value })),
    ...SEGMENTS.map((value) => ({ column: 'segment', value })),
    ...STATUSES.map((value) => ({ column: 'status', value })),
    ...CATEGORIES.map((value) => ({ column: 'category', value })),
    ...PRODUCTS.map(([value]) => ({ column: 'product', value })),
  ].map((each) => [each.value.toLowerCase(), each] as const),
);
const LONGEST_VALUE = 2; // words

const NOISE = new Set(
  'a all an and are at customers for from give how in is many me much number of only order our per please show the total was we were what which with'.split(
    ' ',
  ),
);

/** A question that the rules do not understand: the message says which word, and what they do. */
export class NotUnderstood extends Error {
  override readonly name = 'NotUnderstood';
  constructor(what: string) {
    super(`${what}\n${GRAMMAR}`);
  }
}

/** The plan for a question of the grammar; throws `NotUnderstood` for any other. */
export function planQuestion(question: string): SqlPlan {
  const [, statement] = /^\s*sql\s+(.+)$/is.exec(question) ?? [];
  if (statement !== undefined)
    return { explanation: 'The statement as it was given', tables: [], sql: statement.trim() };
  return compose(read(question));
}

interface Reading {
  measure?: Measure;
  dimension?: string;
  top?: number;
  list: boolean;
  readonly filters: { readonly column: string; readonly value: string | number }[];
}

function read(question: string): Reading {
  const words = question.toLowerCase().match(/[\p{L}\d]+/gu) ?? [];
  const reading: Reading = { list: false, filters: [] };
  for (let i = 0; i < words.length;) i += take(words, i, reading);
  return reading;
}

/** Reads what stands at `at`, and says how many words that were. */
function take(words: readonly string[], at: number, reading: Reading): number {
  const word = words[at] ?? '';
  const next = words[at + 1] ?? '';
  if (word === 'list') return ((reading.list = true), 1);
  if (word === 'by' || word === 'per') {
    const dimension = DIMENSIONS[next];
    const measure = MEASURE_WORDS[next];
    if (dimension !== undefined) reading.dimension = dimension;
    else if (measure !== undefined) reading.measure = MEASURES[measure];
    else throw new NotUnderstood(`I cannot group by "${next}".`);
    return 2;
  }
  for (let length = LONGEST_VALUE; length > 0; length -= 1) {
    const found = VALUES.get(words.slice(at, at + length).join(' '));
    if (!found) continue;
    reading.filters.push(found);
    return length;
  }
  const month = MONTHS.indexOf(word);
  if (month >= 0 && /^\d{4}$/.test(next)) {
    const value = `${next}-${String(month + 1).padStart(2, '0')}`;
    reading.filters.push({ column: 'month', value });
    return 2;
  }
  if (/^\d{4}$/.test(word))
    return (reading.filters.push({ column: 'year', value: Number(word) }), 1);
  if (/^\d{1,3}$/.test(word)) return ((reading.top = Number(word)), 1);
  if (word === 'top') return ((reading.top ??= 5), 1);
  const measure = MEASURE_WORDS[word];
  if (measure !== undefined && !(word === 'orders' && reading.list))
    return ((reading.measure ??= MEASURES[measure]), 1);
  const dimension = DIMENSIONS[word];
  if (dimension !== undefined && reading.top !== undefined)
    return ((reading.dimension = dimension), 1);
  if (NOISE.has(word) || (word === 'orders' && reading.list)) return 1;
  throw new NotUnderstood(`I do not know "${word}".`);
}

function compose({ measure, dimension, top, list, filters }: Reading): SqlPlan {
  const where = conditions(filters);
  const about = filters.length > 0 ? ` (${filters.map(({ value }) => value).join(', ')})` : '';
  const tables = ['sales'];
  if (list)
    return {
      explanation: `The latest orders${about}`,
      tables,
      sql: `select order_id, ordered_on, customer, city, product, units, revenue, status\nfrom sales${where}\norder by ordered_on desc, order_id desc\nlimit ${top ?? 20}`,
    };
  if (!measure) throw new NotUnderstood('I miss what to measure.');
  const value = `${measure.sql} as ${measure.column}`;
  if (dimension === undefined)
    return {
      explanation: `${measure.words}${about}`,
      tables,
      sql: `select ${value}\nfrom sales${where}`,
    };
  const inTime = dimension === 'month' || dimension === 'year';
  const order = inTime && top === undefined ? dimension : `${measure.column} desc, ${dimension}`;
  return {
    explanation: `${measure.words} by ${dimension}${about}${top === undefined ? '' : `, the top ${top}`}`,
    tables,
    sql: `select ${dimension}, ${value}\nfrom sales${where}\ngroup by ${dimension}\norder by ${order}${top === undefined ? '' : `\nlimit ${top}`}`,
  };
}

/** Values of one column are alternatives, columns narrow each other down. */
function conditions(filters: Reading['filters']): string {
  const byColumn = new Map<string, (string | number)[]>();
  for (const { column, value } of filters)
    byColumn.set(column, [...(byColumn.get(column) ?? []), value]);
  const all = [...byColumn].map(([column, values]) =>
    values.length === 1
      ? `${column} = ${literal(values[0] as string | number)}`
      : `${column} in (${values.map(literal).join(', ')})`,
  );
  return all.length > 0 ? `\nwhere ${all.join(' and ')}` : '';
}
