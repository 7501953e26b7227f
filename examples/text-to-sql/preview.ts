/** A row by its columns, as JSON has it. */
export type Row = Readonly<Record<string, unknown>>;

const MAX_BYTES = 64_000;
const MAX_CHARS = 200;

/**
 * Rows to look at: numbers as numbers where they are exact, long values by their beginning, and no
 * more rows than an event may hold. All of it is in the file.
 */
export function previewOf(rows: readonly Row[], numeric: ReadonlySet<string>): readonly Row[] {
  const preview: Row[] = [];
  let bytes = 0;
  for (const row of rows) {
    const short = Object.fromEntries(
      Object.entries(row).map(([name, value]) => [
        name,
        clipped(numeric.has(name) ? exact(value) : value),
      ]),
    );
    bytes += JSON.stringify(short).length;
    if (bytes > MAX_BYTES) break;
    preview.push(short);
  }
  return preview;
}

function clipped(value: unknown): unknown {
  const text = typeof value === 'object' ? JSON.stringify(value) : value;
  return typeof text === 'string' && text.length > MAX_CHARS
    ? `${text.slice(0, MAX_CHARS)}…`
    : value;
}

/** A number of the database, which comes as text when it may be too large for one of ours. */
function exact(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const number = Number(value);
  return Number.isFinite(number) && Math.abs(number) <= Number.MAX_SAFE_INTEGER ? number : value;
}
