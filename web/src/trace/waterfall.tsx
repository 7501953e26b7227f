import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { duration, offsetTime } from '../state/format-time.ts';
import type { TraceSpan } from '../state/span-board.ts';
import type { TimelineRow } from '../state/timeline-row.ts';
import type { TaskView } from '../state/task-view.ts';
import type { ConnectionCut } from '../state/types.ts';
import { MiniMap } from './mini-map.tsx';
import { fitRange, panRange, zoomRange, clampRange, type TimeRange } from './time-range.ts';
import { hatchPattern, useCanvas } from './use-canvas.ts';
import { layoutWaterfall, spanAt, timeOf, type WaterfallLayout } from './waterfall-layout.ts';
import { paintWaterfall, spanLabel } from './waterfall-painter.ts';
import styles from './waterfall.module.css';

interface WaterfallProps {
  readonly view: TaskView;
  readonly cuts: readonly ConnectionCut[];
  /** Returns the time on the clock of the server, in every animation frame. */
  readonly clock: () => number;
  readonly isLive: boolean;
  /** The row under the pointer in the list, and the selected one. */
  readonly hovered: number | undefined;
  readonly selected: number | undefined;
  readonly onHover: (row: number | undefined) => void;
  readonly onSelect: (row: number) => void;
}

const WHEEL_ZOOM = 0.0015;
const KEY_ZOOM = 0.7;
const KEY_PAN = 0.15;
const CLICK_PX = 4;

/**
 * Both lanes over time: the length of a bar is its duration. The wheel zooms, dragging moves,
 * dragging on the axis zooms to a part, and the keys do all of it, too. It follows a live task
 * until the user zooms.
 */
export function Waterfall(props: WaterfallProps): VNode {
  const { view, cuts, clock, isLive } = props;
  const [chosen, setChosen] = useState<TimeRange>();
  const [tip, setTip] = useState<{
    readonly x: number;
    readonly y: number;
    readonly span: TraceSpan;
  }>();
  const [brush, setBrush] = useState<{ readonly from: number; readonly to: number }>();
  const layout = useRef<WaterfallLayout | undefined>(undefined);
  const hatch = useRef<{ color: string; pattern: CanvasPattern | undefined } | undefined>(
    undefined,
  );
  const drag = useRef<Drag | undefined>(undefined);

  const start = view.snapshot?.createdAt ?? clock();
  const bounds = (): TimeRange => fitRange(start, Math.max(view.lastAt, isLive ? clock() : start));
  const range = (): TimeRange => chosen ?? bounds();

  const { ref, repaint } = useCanvas(({ ctx, width, height, theme }) => {
    layout.current = layoutWaterfall(view.spans.groups, width, height);
    if (hatch.current?.color !== theme.warn)
      hatch.current = { color: theme.warn, pattern: hatchPattern(ctx, theme.warn) };
    const hovered = rowOf(view, props.hovered);
    const selected = rowOf(view, props.selected);
    paintWaterfall(ctx, {
      view,
      cuts,
      layout: layout.current,
      range: range(),
      theme,
      markers: view.markers,
      now: isLive ? clock() : (view.endedAt ?? clock()),
      isLive,
      hovered: hovered?.span,
      selected: selected?.span,
      hoveredAt: hovered && !hovered.span ? hovered.at : undefined,
      selectedAt: selected && !selected.span ? selected.at : undefined,
      hatch: hatch.current.pattern,
    });
  }, isLive);

  const zoom = (factor: number, at?: number): void => {
    const current = range();
    const limits = bounds();
    const next = zoomRange(current, at ?? (current.from + current.to) / 2, factor, limits);
    const isAll = next.to - next.from >= (limits.to - limits.from) * 0.999;
    setChosen(isAll ? undefined : next);
  };
  const pan = (part: number): void => setChosen(panRange(range(), part, bounds()));
  const fit = (): void => setChosen(undefined);
  const showRow = (row: TimelineRow | undefined): void => {
    if (!row?.span) return;
    const { startedAt, endedAt = clock() } = row.span;
    const pad = Math.max(2, (endedAt - startedAt) * 0.2);
    setChosen(clampRange({ from: startedAt - pad, to: endedAt + pad }, bounds()));
  };
  const keys: Readonly<Record<string, () => void>> = {
    '+': () => zoom(KEY_ZOOM),
    '=': () => zoom(KEY_ZOOM),
    '-': () => zoom(1 / KEY_ZOOM),
    ArrowLeft: () => pan(-KEY_PAN),
    ArrowRight: () => pan(KEY_PAN),
    0: fit,
    f: fit,
    z: () => showRow(rowOf(view, props.selected)),
  };

  useEffect(() => {
    // A passive listener could not keep the page from scrolling.
    const canvas = ref.current;
    const wheel = (event: WheelEvent): void => {
      const at = layout.current && timeOf(layout.current, range(), event.offsetX);
      event.preventDefault();
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY))
        pan(sideways / (canvas?.clientWidth ?? 1));
      else zoom(Math.exp(event.deltaY * WHEEL_ZOOM), at);
    };
    canvas?.addEventListener('wheel', wheel, { passive: false });
    return () => canvas?.removeEventListener('wheel', wheel);
  });

  const hit = (event: PointerEvent | MouseEvent): TraceSpan | undefined =>
    layout.current &&
    spanAt(
      layout.current,
      range(),
      event.offsetX,
      event.offsetY,
      isLive ? clock() : (view.endedAt ?? clock()),
    );
  const released = (event: PointerEvent): void => {
    const { current } = drag;
    drag.current = undefined;
    setBrush(undefined);
    if (!current || !layout.current) return;
    if (Math.abs(event.offsetX - current.x) < CLICK_PX) {
      const span = hit(event);
      if (span) props.onSelect(span.from);
    } else if (current.kind === 'brush') {
      const ends = [current.x, event.offsetX].map((x) =>
        timeOf(layout.current as WaterfallLayout, current.range, x),
      );
      setChosen(clampRange({ from: Math.min(...ends), to: Math.max(...ends) }, bounds()));
    }
  };
  const moved = (event: PointerEvent): void => {
    const { current } = drag;
    const shape = layout.current;
    if (!current || !shape) {
      const span = hit(event);
      setTip(span && { x: event.offsetX, y: event.offsetY, span });
      props.onHover(span?.from);
      return;
    }
    if (current.kind === 'brush')
      setBrush({
        from: Math.min(current.x, event.offsetX),
        to: Math.max(current.x, event.offsetX),
      });
    else if (Math.abs(event.offsetX - current.x) >= CLICK_PX) {
      const part = (current.x - event.offsetX) / (shape.width - shape.gutter);
      setChosen(panRange(current.range, part, bounds()));
    }
    setTip(undefined);
    repaint();
  };

  const shown = range();
  return (
    <section class={styles['waterfall']} aria-label="Waterfall" data-part="waterfall">
      <div class={styles['bar']}>
        <h2 class={styles['title']}>Timeline</h2>
        <ul class={styles['legend']} aria-label="Legend">
          <li data-key="message">message</li>
          <li data-key="control">control</li>
          <li data-key="wait">waits for a person</li>
          <li data-key="bad">failed</li>
        </ul>
        <span class={styles['zoom']} data-part="visible-time">
          {duration(shown.to - shown.from)}
        </span>
        <span class={styles['buttons']}>
          <button
            type="button"
            aria-label="Zoom out"
            title="Zoom out (−)"
            onClick={() => zoom(1 / KEY_ZOOM)}
          >
            −
          </button>
          <button
            type="button"
            aria-label="Zoom in"
            title="Zoom in (+)"
            onClick={() => zoom(KEY_ZOOM)}
          >
            +
          </button>
          <button
            type="button"
            title="Show everything (0)"
            disabled={chosen === undefined}
            onClick={fit}
          >
            Fit
          </button>
        </span>
      </div>
      <MiniMap
        view={view}
        cuts={cuts}
        now={clock()}
        isLive={isLive}
        bounds={bounds()}
        range={shown}
        onRange={setChosen}
      />
      <div
        class={styles['stage']}
        role="group"
        tabIndex={0}
        aria-label={`Timeline of both lanes, ${view.spans.all.length} spans. Plus and minus zoom, the arrow keys move, 0 shows everything. The list of events has the same content.`}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          act();
        }}
      >
        <canvas
          ref={ref}
          class={styles['canvas']}
          data-part="waterfall-canvas"
          aria-hidden="true"
          onPointerDown={(event) => {
            if (event.button !== 0) return;
            event.currentTarget.setPointerCapture(event.pointerId);
            const kind = event.offsetY < (layout.current?.axis ?? 0) ? 'brush' : 'pan';
            drag.current = { kind, x: event.offsetX, range: range() };
          }}
          onPointerMove={moved}
          onPointerUp={released}
          onPointerLeave={() => {
            setTip(undefined);
            props.onHover(undefined);
          }}
          onDblClick={(event) => {
            const span = hit(event);
            if (span) showRow(view.rows[span.from]);
            else fit();
          }}
        />
        {brush && (
          <div
            class={styles['brush']}
            style={{ left: `${brush.from}px`, width: `${brush.to - brush.from}px` }}
          />
        )}
        {tip && (
          <Tip
            {...tip}
            view={view}
            now={clock()}
            origin={start}
            width={layout.current?.width ?? 0}
          />
        )}
      </div>
    </section>
  );
}

interface Drag {
  readonly kind: 'pan' | 'brush';
  readonly x: number;
  readonly range: TimeRange;
}

const rowOf = (view: TaskView, index: number | undefined): TimelineRow | undefined =>
  index === undefined ? undefined : view.rows[index];

const STATE_LABELS: Readonly<Record<TraceSpan['state'], string>> = {
  open: 'open',
  answered: 'done',
  failed: 'failed',
  unanswered: 'no response',
  lost: 'response lost',
  void: 'discarded by a retry',
};

function Tip({
  span,
  view,
  now,
  origin,
  x,
  y,
  width,
}: {
  readonly span: TraceSpan;
  readonly view: TaskView;
  readonly now: number;
  readonly origin: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}): VNode {
  const isRight = x > width * 0.6;
  return (
    <div
      class={styles['tip']}
      style={{
        top: `${y + 14}px`,
        ...(isRight ? { right: `${width - x + 10}px` } : { left: `${x + 12}px` }),
      }}
    >
      <strong>{spanLabel(span, now, view).slice(0, 160)}</strong>
      <span>
        {STATE_LABELS[span.state]} · from {offsetTime(span.startedAt - origin)} s ·{' '}
        {duration((span.endedAt ?? now) - span.startedAt)}
      </span>
    </div>
  );
}
