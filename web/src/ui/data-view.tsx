import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import { isObject } from '../../../src/json.ts';
import controls from './controls.module.css';
import styles from './data-view.module.css';
import { Dialog } from './dialog.tsx';
import type { CitedSource } from '../state/cited-sources.ts';
import { columnsOf, humanize, isWide, rowsOf, seriesOf, type Series } from './table-data.ts';

type Sources = ReadonlyMap<string, CitedSource>;

const MOST_ROWS = 200;
const MAX_DEPTH = 6;
const SHORT_CHARS = 30;

/**
 * Structured data in readable form: sections, tables, charts. A string that is the id of a passage
 * of a tool result becomes a button that opens the passage.
 */
export function DataView({
  value,
  sources,
  depth = 0,
}: {
  readonly value: unknown;
  readonly sources: Sources;
  readonly depth?: number;
}): VNode {
  const rows = rowsOf(value);
  if (depth > MAX_DEPTH) return <code>{JSON.stringify(value)}</code>;
  if (rows && !isWide(rows)) return <Table rows={rows} sources={sources} depth={depth} />;
  if (Array.isArray(value)) {
    if (value.length === 0) return <span class={controls['soft']}>none</span>;
    if (value.every((item) => isShort(item) && !sources.has(item))) return <>{value.join(', ')}</>;
    return (
      <ul
        class={
          rows
            ? styles['records']
            : value.every((item) => sources.has(item as string))
              ? styles['citations']
              : undefined
        }
      >
        {value.map((item: unknown, i) => (
          <li key={i}>
            <DataView value={item} sources={sources} depth={depth + 1} />
          </li>
        ))}
      </ul>
    );
  }
  if (isObject(value)) {
    return (
      <dl>
        {Object.entries(value).map(([key, inner]) => (
          <div key={key}>
            <dt>{humanize(key)}</dt>
            <dd>
              <DataView value={inner} sources={sources} depth={depth + 1} />
            </dd>
          </div>
        ))}
      </dl>
    );
  }
  const source = typeof value === 'string' ? sources.get(value) : undefined;
  return source ? <Citation source={source} /> : <>{scalar(value)}</>;
}

const isShort = (item: unknown): item is string =>
  typeof item === 'string' && item.length <= SHORT_CHARS;

function scalar(value: unknown): ComponentChildren {
  if (value === null || value === undefined) return <span class={controls['soft']}>–</span>;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return typeof value === 'number' ? value.toLocaleString() : String(value as string);
}

function Table({
  rows,
  sources,
  depth,
}: {
  readonly rows: NonNullable<ReturnType<typeof rowsOf>>;
  readonly sources: Sources;
  readonly depth: number;
}): VNode {
  const columns = columnsOf(rows);
  const series = seriesOf(rows);
  return (
    // A table may be wider than the page. It can be focused, so that the keys scroll it too.
    <div class={styles['table']} role="group" aria-label="Table" tabIndex={0}>
      {series && <Chart series={series} />}
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {humanize(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row, i) => (
            <tr key={i}>
              {columns.map((column) => (
                <td
                  key={column}
                  class={typeof row[column] === 'number' ? styles['number'] : undefined}
                >
                  <DataView value={row[column]} sources={sources} depth={depth + 1} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && (
        <p class={controls['soft']}>
          {rows.length - MOST_ROWS} more rows; download the artifact to see them.
        </p>
      )}
    </div>
  );
}

const BAR_PX = 20;

function Chart({ series: { label, value, points } }: { readonly series: Series }): VNode {
  const top = Math.max(...points.map((point) => Math.abs(point.value)), Number.MIN_VALUE);
  return (
    <svg
      class={styles['chart']}
      role="img"
      aria-label={`${humanize(value)} by ${humanize(label)}; the numbers are in the table below`}
      viewBox={`0 0 400 ${points.length * BAR_PX}`}
    >
      {points.map((point, i) => {
        const width = (Math.abs(point.value) / top) * 220;
        const middle = i * BAR_PX + BAR_PX * 0.7;
        return (
          <g key={i}>
            <text x="116" y={middle} class={styles['chartLabel']}>
              {point.label.length > 18 ? `${point.label.slice(0, 17)}…` : point.label}
            </text>
            <rect
              x="122"
              y={i * BAR_PX + 4}
              width={width}
              height={BAR_PX - 7}
              class={point.value < 0 ? styles['negative'] : undefined}
            />
            <text x={128 + width} y={middle}>
              {point.value.toLocaleString()}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

function Citation({ source }: { readonly source: CitedSource }): VNode {
  const [open, setOpen] = useState(false);
  const { id, title, section, text } = source;
  return (
    <>
      <button
        type="button"
        class={styles['citation']}
        data-part="citation"
        title={title}
        onClick={() => setOpen(true)}
      >
        {id}
      </button>
      {open && (
        <Dialog title={title} onClose={() => setOpen(false)}>
          {section && <p class={controls['soft']}>{section}</p>}
          <p class={styles['passage']} data-part="passage">
            {text}
          </p>
        </Dialog>
      )}
    </>
  );
}
