import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import type { TaskView } from '../state/task-view.ts';
import type { ConnectionCut } from '../state/types.ts';
import styles from './mini-map.module.css';
import { clampRange, type TimeRange } from './time-range.ts';
import { useCanvas, type CanvasFrame } from './use-canvas.ts';
import { gutterOf } from './waterfall-layout.ts';

interface MiniMapProps {
  readonly view: TaskView;
  readonly cuts: readonly ConnectionCut[];
  readonly now: number;
  readonly isLive: boolean;
  /** Everything that there is to see. */
  readonly bounds: TimeRange;
  readonly range: TimeRange;
  readonly onRange: (range: TimeRange) => void;
}

const COLUMN_PX = 2;
const EDGE_PX = 8;

/** The complete run, small: text above, calls below, and the visible part as a window to drag. */
export function MiniMap(props: MiniMapProps): VNode {
  const { bounds, range, onRange } = props;
  const { ref } = useCanvas((frame) => paint(frame, props), props.isLive);
  const drag = useRef<{ kind: 'from' | 'to' | 'all'; x: number; range: TimeRange } | undefined>(
    undefined,
  );
  const plot = (): readonly [start: number, width: number] => {
    const width = ref.current?.clientWidth ?? 1;
    return [gutterOf(width), width - gutterOf(width)];
  };
  const timeAt = (x: number): number =>
    bounds.from + ((x - plot()[0]) / plot()[1]) * (bounds.to - bounds.from);
  const xAt = (at: number): number =>
    plot()[0] + ((at - bounds.from) / (bounds.to - bounds.from)) * plot()[1];
  return (
    <canvas
      ref={ref}
      class={styles['map']}
      aria-hidden="true"
      data-part="mini-map"
      onPointerDown={(event) => {
        const x = event.offsetX;
        event.currentTarget.setPointerCapture(event.pointerId);
        const kind =
          Math.abs(x - xAt(range.from)) < EDGE_PX
            ? 'from'
            : Math.abs(x - xAt(range.to)) < EDGE_PX
              ? 'to'
              : 'all';
        const isInside = x >= xAt(range.from) && x <= xAt(range.to);
        const middle = timeAt(x);
        const half = (range.to - range.from) / 2;
        const start =
          kind === 'all' && !isInside
            ? clampRange({ from: middle - half, to: middle + half }, bounds)
            : range;
        if (start !== range) onRange(start);
        drag.current = { kind, x, range: start };
      }}
      onPointerMove={(event) => {
        const { current } = drag;
        if (!current) return;
        const by = timeAt(event.offsetX) - timeAt(current.x);
        const { from, to } = current.range;
        const moved =
          current.kind === 'all'
            ? { from: from + by, to: to + by }
            : current.kind === 'from'
              ? { from: Math.min(from + by, to - 5), to }
              : { from, to: Math.max(to + by, from + 5) };
        onRange(clampRange(moved, bounds));
      }}
      onPointerUp={() => {
        drag.current = undefined;
      }}
    />
  );
}

function paint({ ctx, width, height, theme }: CanvasFrame, props: MiniMapProps): void {
  const { view, cuts, now, bounds, range } = props;
  const gutter = gutterOf(width);
  const plot = width - gutter;
  const x = (at: number): number =>
    gutter + ((at - bounds.from) / (bounds.to - bounds.from)) * plot;
  ctx.clearRect(0, 0, width, height);
  ctx.font = '10px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = theme.soft;
  ctx.fillText('overview', 12, height / 2);
  const columns = Math.max(1, Math.floor(plot / COLUMN_PX));
  const step = (bounds.to - bounds.from) / columns;
  const half = height / 2;
  const text = Array.from({ length: columns }, (_, i) =>
    view.tokens.between(bounds.from + i * step, bounds.from + (i + 1) * step),
  );
  const calls = activeCalls(view, bounds, columns, now);
  for (const [values, color, isAbove] of [
    [text, theme.message, true],
    [calls, theme.control, false],
  ] as const) {
    const most = Math.max(...values, 1);
    ctx.fillStyle = color;
    for (const [i, value] of values.entries()) {
      if (value === 0) continue;
      const h = Math.max(1.5, Math.sqrt(value / most) * (half - 4));
      ctx.fillRect(gutter + i * COLUMN_PX, isAbove ? half - h : half + 1, COLUMN_PX, h);
    }
  }
  ctx.fillStyle = theme.bad;
  for (const cut of cuts)
    ctx.fillRect(x(cut.from), 0, Math.max(1, x(cut.to ?? now) - x(cut.from)), 3);
  const [from, to] = [Math.max(gutter, x(range.from)), Math.min(width, x(range.to))];
  if (to - from >= plot - 1) return;
  ctx.fillStyle = theme.faint;
  ctx.fillRect(gutter, 0, from - gutter, height);
  ctx.fillRect(to, 0, width - to, height);
  ctx.fillStyle = theme.ink;
  for (const edge of [from, to - 2]) ctx.fillRect(edge, 0, 2, height);
}

/** How many calls and requests are open in each column. */
function activeCalls(
  view: TaskView,
  { from, to }: TimeRange,
  columns: number,
  now: number,
): readonly number[] {
  const changes = Array.from({ length: columns + 1 }, () => 0);
  const at = (time: number): number =>
    Math.min(columns - 1, Math.max(0, Math.floor(((time - from) / (to - from)) * columns)));
  for (const span of view.spans.all) {
    if (span.group.lane !== 'control') continue;
    const start = at(span.startedAt);
    const end = at(span.endedAt ?? now) + 1;
    changes[start] = (changes[start] ?? 0) + 1;
    changes[end] = (changes[end] ?? 0) - 1;
  }
  let open = 0;
  return changes.slice(0, columns).map((change) => (open += change));
}
