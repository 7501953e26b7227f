import type { TraceSpan } from '../state/span-board.ts';
import { duration } from '../state/format-time.ts';
import { argsText } from '../state/row-text.ts';
import { shortName } from '../state/frame-facts.ts';
import type { TimeMarker } from '../state/timeline-row.ts';
import type { TaskView } from '../state/task-view.ts';
import type { ConnectionCut } from '../state/types.ts';
import type { CanvasTheme } from './canvas-theme.ts';
import { paintMarkers } from './marker-painter.ts';
import { ticksOf, type TimeRange } from './time-range.ts';
import {
  firstAfter,
  xOf,
  type GroupBox,
  type LaneBox,
  type WaterfallLayout,
} from './waterfall-layout.ts';

/** What a waterfall shows. */
export interface WaterfallScene {
  readonly view: TaskView;
  readonly layout: WaterfallLayout;
  readonly range: TimeRange;
  readonly theme: CanvasTheme;
  readonly cuts: readonly ConnectionCut[];
  readonly markers: readonly TimeMarker[];
  /** The time on the clock of the server; open spans end here. */
  readonly now: number;
  /** The task goes on, so there is a line at `now`. */
  readonly isLive: boolean;
  readonly hovered: TraceSpan | undefined;
  readonly selected: TraceSpan | undefined;
  /** A row without a span is marked by its time. */
  readonly hoveredAt: number | undefined;
  readonly selectedAt: number | undefined;
  readonly hatch: CanvasPattern | undefined;
}

export const CANVAS_FONT = '11px system-ui, sans-serif';
const BAR_GAP_PX = 4;
/** A span is at least so wide, so that a call of 0 ms can be seen. */
const MIN_BAR_PX = 2;
const MIN_LABEL_PX = 34;

/** Draws the complete scene. Only what is in the range is visited, found by binary search. */
export function paintWaterfall(ctx: CanvasRenderingContext2D, scene: WaterfallScene): void {
  const { layout, theme } = scene;
  ctx.clearRect(0, 0, layout.width, layout.height);
  ctx.font = CANVAS_FONT;
  ctx.textBaseline = 'middle';
  for (const lane of layout.lanes) paintLane(ctx, scene, lane);
  paintAxis(ctx, scene);
  ctx.save();
  ctx.beginPath();
  ctx.rect(layout.gutter, layout.axis, layout.width - layout.gutter, layout.height);
  ctx.clip();
  paintSpark(ctx, scene);
  for (const lane of layout.lanes)
    for (const box of lane.groups) paintGroup(ctx, scene, box, lane.lane);
  ctx.restore();
  paintMarkers(ctx, scene);
  ctx.fillStyle = theme.edge;
  ctx.fillRect(layout.gutter - 1, layout.axis, 1, layout.height - layout.axis);
}

function paintLane(
  ctx: CanvasRenderingContext2D,
  { layout, theme }: WaterfallScene,
  { lane, top, height, groups }: LaneBox,
): void {
  ctx.fillStyle = theme.lane;
  ctx.fillRect(0, top, layout.width, height);
  ctx.fillStyle = theme[lane];
  ctx.fillRect(0, top, 3, height);
  ctx.font = `600 ${CANVAS_FONT}`;
  ctx.fillText(layout.gutter < 100 ? lane : `${lane} lane`, 12, top + 12);
  ctx.font = CANVAS_FONT;
  ctx.fillStyle = theme.soft;
  for (const box of groups) {
    if (box.height < 9) continue;
    const x = 12 + Math.min(box.depth, 4) * 9;
    const label = box.depth > 0 ? `↳ ${box.label}` : box.label;
    ctx.fillText(
      clip(ctx, label, layout.gutter - x - 8),
      x,
      box.top + Math.min(box.height, box.pitch) / 2,
    );
  }
}

function paintAxis(
  ctx: CanvasRenderingContext2D,
  { layout, range, theme, view }: WaterfallScene,
): void {
  const origin = view.snapshot?.createdAt ?? range.from;
  const most = Math.max(2, Math.floor((layout.width - layout.gutter) / 90));
  for (const { at, label } of ticksOf(range, origin, most)) {
    const x = Math.round(xOf(layout, range, at));
    if (x < layout.gutter) continue;
    ctx.fillStyle = theme.grid;
    ctx.fillRect(x, layout.axis - 6, 1, layout.height);
    ctx.fillStyle = theme.soft;
    const width = ctx.measureText(label).width;
    if (x + width + 6 < layout.width) ctx.fillText(label, x + 4, layout.axis - 14);
  }
}

/** The density of the text: characters for each pixel column, as an area. */
function paintSpark(ctx: CanvasRenderingContext2D, scene: WaterfallScene): void {
  const { layout, range, theme, view } = scene;
  const { top, height } = layout.spark;
  const width = layout.width - layout.gutter;
  const columns = Math.max(1, Math.floor(width / 3));
  const step = (range.to - range.from) / columns;
  const values: number[] = [];
  for (let i = 0; i < columns; i++)
    values.push(view.tokens.between(range.from + i * step, range.from + (i + 1) * step));
  const most = Math.max(...values);
  ctx.fillStyle = theme.grid;
  ctx.fillRect(layout.gutter, top + height, width, 1);
  if (most === 0) return;
  ctx.fillStyle = theme.message;
  for (const [i, value] of values.entries()) {
    if (value === 0) continue;
    const h = Math.max(1.5, Math.sqrt(value / most) * (height - 4));
    ctx.globalAlpha = 0.75;
    ctx.fillRect(layout.gutter + i * 3, top + height - h, 2, h);
  }
  ctx.globalAlpha = 1;
}

function paintGroup(
  ctx: CanvasRenderingContext2D,
  scene: WaterfallScene,
  box: GroupBox,
  lane: LaneBox['lane'],
): void {
  const { layout, range, now } = scene;
  for (const [index, track] of box.group.tracks.entries()) {
    const y = box.top + index * box.pitch;
    let drawnTo = -1;
    // The first span that may be visible is the last one that starts before the range.
    for (let i = Math.max(0, firstAfter(track, range.from) - 1); i < track.length; i++) {
      const span = track[i] as TraceSpan;
      if (span.startedAt > range.to) break;
      const from = xOf(layout, range, span.startedAt);
      const to = Math.max(from + MIN_BAR_PX, xOf(layout, range, span.endedAt ?? now));
      // Spans within one pixel of each other look like one; drawing each would cost most.
      if (to <= drawnTo && span !== scene.selected && span !== scene.hovered) continue;
      drawnTo = to;
      paintSpan(ctx, scene, span, lane, { x: from, y, width: to - from, height: box.pitch });
    }
  }
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

function paintSpan(
  ctx: CanvasRenderingContext2D,
  scene: WaterfallScene,
  span: TraceSpan,
  lane: LaneBox['lane'],
  { x, y, width, height: pitch }: Box,
): void {
  const { theme, layout } = scene;
  const gap = pitch > 10 ? BAR_GAP_PX : pitch > 5 ? 1.5 : 0.5;
  const height = Math.max(1, pitch - gap);
  const top = y + gap / 2;
  const start = Math.max(x, layout.gutter - 4);
  const wide = Math.min(x + width, layout.width + 4) - start;
  const isBad = span.state === 'failed' || span.state === 'lost' || isUnanswered(span, scene);
  const isWait = span.kind === 'wait' || span.kind === 'pause';
  ctx.fillStyle = isBad ? theme['bad-fill'] : isWait ? theme['wait-fill'] : theme[`${lane}-fill`];
  if (span.state === 'void' || span.kind === 'reasoning' || span.kind === 'exchange')
    ctx.globalAlpha = 0.6;
  if (wide < 5) {
    ctx.globalAlpha = 1;
    ctx.fillStyle = isBad ? theme.bad : isWait ? theme.warn : theme[lane];
    ctx.fillRect(start, top, Math.max(wide, MIN_BAR_PX), height);
  } else {
    ctx.beginPath();
    ctx.roundRect(start, top, wide, height, Math.min(4, height / 3));
    ctx.fill();
    if (isWait && scene.hatch) {
      ctx.fillStyle = scene.hatch;
      ctx.fill();
    }
    ctx.globalAlpha = 1;
    ctx.fillStyle = isBad ? theme.bad : isWait ? theme.warn : theme[lane];
    ctx.fillRect(start, top, 2.5, height);
    if (span.state === 'open') ctx.fillRect(start + wide - 2.5, top, 2.5, height);
  }
  ctx.globalAlpha = 1;
  outline(ctx, scene, span, { x: start, y: top, width: Math.max(wide, MIN_BAR_PX), height });
  if (height >= 12 && wide >= MIN_LABEL_PX) {
    ctx.fillStyle = isBad ? theme.bad : theme.ink;
    const text = clip(ctx, spanLabel(span, scene.now, scene.view), wide - 12);
    ctx.fillText(text, start + 7, top + height / 2 + 0.5);
    if (span.state === 'void')
      ctx.fillRect(start + 6, top + height / 2, ctx.measureText(text).width, 1);
  }
}

/** A call or request of a task that is over without a result. */
const isUnanswered = (span: TraceSpan, { view }: WaterfallScene): boolean =>
  (span.kind === 'call' && span.state === 'open' && view.contract.over) ||
  (span.kind === 'exchange' && span.state === 'unanswered');

function outline(
  ctx: CanvasRenderingContext2D,
  { theme, hovered, selected }: WaterfallScene,
  span: TraceSpan,
  { x, y, width, height }: Box,
): void {
  if (span !== hovered && span !== selected) return;
  ctx.strokeStyle = span === selected ? theme.select : theme.soft;
  ctx.lineWidth = span === selected ? 2 : 1;
  ctx.beginPath();
  ctx.roundRect(x - 1, y - 1, width + 2, height + 2, 4);
  ctx.stroke();
}

/** The name of a span with its duration, as the waterfall and its tooltip show it. */
export function spanLabel(span: TraceSpan, now: number, view: TaskView): string {
  const took = duration((span.endedAt ?? now) - span.startedAt);
  switch (span.kind) {
    case 'text':
    case 'reasoning': {
      const text = view.rows[span.from]?.text.slice(0, 120).replaceAll(/\s+/g, ' ') ?? '';
      return span.kind === 'reasoning' ? `thinks: ${text}` : text;
    }
    case 'call':
      return `${shortName(span.name)} ${took} ${argsText(span.args)}`;
    case 'wait':
      return `${span.state === 'open' ? 'waiting for you' : 'waited for you'} ${took}: ${span.name}`;
    case 'pause':
      return `${span.name} ${took}`;
    case 'exchange':
      return `${span.name} ${took}`;
  }
}

const widths = new Map<string, number>();
const MAX_WIDTHS = 5000;

/** Shortens a text to a width. The width of each character is measured once. */
export function clip(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  let used = 0;
  for (let i = 0; i < text.length; i++) {
    const char = text.charAt(i);
    let measured = widths.get(char);
    if (measured === undefined) {
      if (widths.size > MAX_WIDTHS) widths.clear();
      widths.set(char, (measured = ctx.measureText(char).width));
    }
    used += measured;
    if (used > width) return i < 2 ? '' : `${text.slice(0, i - 1)}…`;
  }
  return text;
}
