import { isObject, type JsonObject } from '../../../src/json.ts';

/** The rows of a value that is a non-empty list of records; undefined for any other value. */
export function rowsOf(value: unknown): readonly JsonObject[] | undefined {
  return Array.isArray(value) && value.length > 0 && value.every(isObject)
    ? (value as readonly JsonObject[])
    : undefined;
}

export const columnsOf = (rows: readonly JsonObject[]): readonly string[] => [
  ...new Set(rows.flatMap((row) => Object.keys(row))),
];

const LONG_CHARS = 60;
const WIDE_COLUMNS = 3;

/** Whether the rows are too wide for a table; then they are shown one below the other. */
export const isWide = (rows: readonly JsonObject[]): boolean => {
  const columns = columnsOf(rows);
  const long = (cell: unknown): boolean =>
    typeof cell === 'string' ? cell.length > LONG_CHARS : typeof cell === 'object' && cell !== null;
  return (
    columns.length > WIDE_COLUMNS && rows.some((row) => columns.some((column) => long(row[column])))
  );
};

export interface Series {
  readonly label: string;
  readonly value: string;
  readonly points: readonly { readonly label: string; readonly value: number }[];
}

const MAX_POINTS = 40;
/** Columns of numbers that identify or order a row instead of measuring something. */
const NO_MEASURE = /(^|[_\s])id$|Id$|^year$|rank|^page$/;

/** The data of a chart: the first column of measured numbers over the first column of strings. */
export function seriesOf(rows: readonly JsonObject[]): Series | undefined {
  if (rows.length < 2 || rows.length > MAX_POINTS) return undefined;
  const columns = columnsOf(rows);
  const every = (column: string, type: string): boolean =>
    rows.every((row) => typeof row[column] === type);
  const value = columns.find((column) => every(column, 'number') && !NO_MEASURE.test(column));
  const label = columns.find((column) => every(column, 'string'));
  if (value === undefined || label === undefined) return undefined;
  const points = rows.map((row) => ({ label: String(row[label]), value: Number(row[value]) }));
  return points.every((point) => Number.isFinite(point.value))
    ? { label, value, points }
    : undefined;
}

/** The title or name of a record. */
export function nameOf(record: unknown): string | undefined {
  const { title, name } = isObject(record) ? record : {};
  return [title, name].find((text) => typeof text === 'string');
}

/** Makes a label of a key: `medicationSafety` becomes `Medication safety`. */
export function humanize(key: string): string {
  const words = key
    .replaceAll(/[_-]+/g, ' ')
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
