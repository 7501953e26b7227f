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
  filters: a city, segment, category, product or status; a year (${YEARS.join(', ')}) or a month (March 2025, 2025-03)`;

interface Measure {
  readonly sql: string;
  readonly column: string;
  readonly words: string;
}
const AVERAGE: Measure = {
  sql: 'round(avg(revenue), 2)',
  column: 'average_order',
  words: 'Average order',
};
const REVENUE: Measure = { sql: 'sum(revenue)', column: 'revenue', words: 'Revenue' };
const ORDERS: Measure = { sql: 'count(*)', column: 'orders', words: 'Number of orders' };
const UNITS: Measure = { sql: 'sum(units)', column: 'units', words: 'Units sold' };

// Maps and not objects: a question may well have the word "constructor".
const MEASURES: ReadonlyMap<string, Measure> = new Map([
  ['revenue', REVENUE],
  ['sales', REVENUE],
  ['turnover', REVENUE],
  ['orders', ORDERS],
  ['units', UNITS],
  ['quantity', UNITS],
  ['average', AVERAGE],
]);

const DIMENSIONS: ReadonlyMap<string, string> = new Map(
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
const MAX_QUOTED = 40;

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
  measure?: { readonly word: string; readonly is: Measure };
  dimension?: string;
  top?: number;
  list: boolean;
  readonly filters: { readonly column: string; readonly value: string | number }[];
}

/**
 * Words, and numbers with their sign and their fraction: what is not understood must not fall off.
 */
const WORD = /(?<![\p{L}\d])-?\d(?:[\d.,-]*\d)?\p{L}*|[\p{L}\d]+/gu;

function read(question: string): Reading {
  const words = question.toLowerCase().match(WORD) ?? [];
  const reading: Reading = { list: false, filters: [] };
  for (let i = 0; i < words.length;) i += take(words, i, reading);
  return reading;
}

/** Reads what stands at `at`, and says how many words that were. */
function take(words: readonly string[], at: number, reading: Reading): number {
  const [word = '', next = ''] = words.slice(at, at + 2);
  const before = words[at - 1];
  if (word === 'list') return ((reading.list = true), 1);
  if (word === 'by' || word === 'per') return (takeGroup(next, reading), 2);
  const found = takeValue(words, at, reading);
  if (found > 0) return found;
  if (before === 'top' || before === 'list') {
    if (/^[1-9]\d{0,4}$/.test(word)) return ((reading.top = Number(word)), 1);
  }
  if (word === 'top') return ((reading.top ??= 5), 1);
  if (word === 'orders' && (reading.list || (reading.measure && before !== 'and'))) return 1;
  const measure = MEASURES.get(word);
  if (measure) return (takeMeasure(word, measure, reading), 1);
  const dimension = DIMENSIONS.get(word);
  if (dimension !== undefined && reading.top !== undefined)
    return (takeDimension(dimension, reading), 1);
  if (NOISE.has(word)) return 1;
  throw new NotUnderstood(`I do not know ${quoted(word)}.`);
}

function takeGroup(word: string, reading: Reading): void {
  if (word === '') throw new NotUnderstood('I miss what to group by.');
  const dimension = DIMENSIONS.get(word);
  const measure = MEASURES.get(word);
  if (dimension !== undefined) takeDimension(dimension, reading);
  else if (measure) takeMeasure(word, measure, reading);
  else throw new NotUnderstood(`I cannot group by ${quoted(word)}.`);
}

function takeDimension(dimension: string, reading: Reading): void {
  if ((reading.dimension ??= dimension) !== dimension)
    throw new NotUnderstood(
      `I can group by one thing, not by ${reading.dimension} and ${dimension}.`,
    );
}

function takeMeasure(word: string, measure: Measure, reading: Reading): void {
  const { word: other, is } = (reading.measure ??= { word, is: measure });
  const isAveraged = is === AVERAGE && measure === REVENUE; // the average order is one of revenue
  if (is !== measure && !isAveraged)
    throw new NotUnderstood(`I can measure one thing, not ${other} and ${word}.`);
}

/**
 * Parses a value of the data, a month or a year; returns the number of words, 0 without a match.
 */
function takeValue(words: readonly string[], at: number, { filters }: Reading): number {
  for (let length = LONGEST_VALUE; length > 0; length -= 1) {
    const found = VALUES.get(words.slice(at, at + length).join(' '));
    if (found) return (filters.push(found), length);
  }
  const [word = '', next = ''] = words.slice(at, at + 2);
  const month = MONTHS.indexOf(word);
  if (month >= 0 && YEAR.test(next)) {
    const value = `${next}-${String(month + 1).padStart(2, '0')}`;
    return (filters.push({ column: 'month', value }), 2);
  }
  if (/^(?:19|20)\d\d-(?:0[1-9]|1[0-2])$/.test(word))
    return (filters.push({ column: 'month', value: word }), 1);
  if (YEAR.test(word)) return (filters.push({ column: 'year', value: Number(word) }), 1);
  return 0;
}

const YEAR = /^(?:19|20)\d\d$/;

const quoted = (word: string): string =>
  `"${word.length > MAX_QUOTED ? `${word.slice(0, MAX_QUOTED)}…` : word}"`;

function compose({ measure, dimension, top, list, filters }: Reading): SqlPlan {
  const where = conditions(filters);
  const about = filters.length > 0 ? ` (${filters.map(({ value }) => value).join(', ')})` : '';
  const tables = ['sales'];
  if (list) {
    if (measure || dimension !== undefined)
      throw new NotUnderstood('A list has every order by itself: nothing is measured or grouped.');
    return {
      explanation: `The latest orders${about}`,
      tables,
      sql: `select order_id, ordered_on, customer, city, product, units, revenue, status\nfrom sales${where}\norder by ordered_on desc, order_id desc\nlimit ${top ?? 20}`,
    };
  }
  if (!measure) throw new NotUnderstood('I miss what to measure.');
  const { sql, column, words } = measure.is;
  const value = `${sql} as ${column}`;
  if (dimension === undefined) {
    if (top !== undefined) throw new NotUnderstood('I miss what to rank, such as "products".');
    return {
      explanation: `${words}${about}`,
      tables,
      sql: `select ${value}\nfrom sales${where}`,
    };
  }
  const inTime = dimension === 'month' || dimension === 'year';
  const order = inTime && top === undefined ? dimension : `${column} desc, ${dimension}`;
  return {
    explanation: `${words} by ${dimension}${about}${top === undefined ? '' : `, the top ${top}`}`,
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
