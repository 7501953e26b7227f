import { duration } from '../state/format-time.ts';
import type { TimeMarker } from '../state/timeline-row.ts';
import type { ConnectionCut } from '../state/types.ts';
import type { CanvasTheme } from './canvas-theme.ts';
import { xOf } from './waterfall-layout.ts';
import type { WaterfallScene } from './waterfall-painter.ts';

const MARKER_COLORS: Readonly<Record<TimeMarker['kind'], keyof CanvasTheme>> = {
  turn: 'soft',
  'first-token': 'message',
  retry: 'warn',
  cancel: 'warn',
  attempt: 'bad',
  end: 'soft',
};

/** Draws what both lanes share: cuts of the connection, marked moments, and the line at now. */
export function paintMarkers(ctx: CanvasRenderingContext2D, scene: WaterfallScene): void {
  const { layout, range, theme, now, isLive } = scene;
  const labels = new LabelRow(ctx, scene);
  for (const cut of scene.cuts) paintCut(ctx, scene, cut, labels);
  for (const marker of scene.markers) {
    const x = xOf(layout, range, marker.at);
    if (x < layout.gutter || x > layout.width) continue;
    const color = theme[MARKER_COLORS[marker.kind]];
    line(ctx, scene, x, color, marker.kind === 'first-token' ? [2, 3] : [4, 3]);
    labels.put(x, marker.label, color);
  }
  for (const [at, color] of [
    [scene.hoveredAt, theme.soft],
    [scene.selectedAt, theme.select],
  ] as const)
    if (at !== undefined) line(ctx, scene, xOf(layout, range, at), color, []);
  if (isLive) {
    const x = xOf(layout, range, now);
    if (x >= layout.gutter && x <= layout.width) {
      line(ctx, scene, x, theme.bad, []);
      ctx.fillStyle = theme.bad;
      ctx.beginPath();
      ctx.arc(x, layout.axis - 5, 3.5, 0, Math.PI * 2);
      ctx.fill();
    }
  }
}

function paintCut(
  ctx: CanvasRenderingContext2D,
  scene: WaterfallScene,
  cut: ConnectionCut,
  labels: LabelRow,
): void {
  const { layout, range, theme, now } = scene;
  const from = Math.max(layout.gutter, xOf(layout, range, cut.from));
  const to = Math.min(layout.width, xOf(layout, range, cut.to ?? now));
  if (to < layout.gutter || from > layout.width) return;
  ctx.fillStyle = theme.faint;
  ctx.fillRect(from, layout.axis, Math.max(2, to - from), layout.height);
  line(ctx, scene, from, theme.bad, [1, 2]);
  if (cut.to !== undefined) line(ctx, scene, to, theme.good, [1, 2]);
  const lost = cut.lost === undefined ? theme.soft : cut.lost > 0 ? theme.bad : theme.good;
  labels.put(from, cutText(cut), lost);
}

/** What a cut cost: `cut 2.4 s, 67 replayed, 0 lost`. */
export function cutText({ from, to, replayed, lost }: ConnectionCut): string {
  const facts = [
    to === undefined ? 'cut' : `cut ${duration(to - from)}`,
    replayed !== undefined && `${replayed} replayed`,
    lost !== undefined && `${lost} lost`,
  ];
  return facts.filter(Boolean).join(', ');
}

function line(
  ctx: CanvasRenderingContext2D,
  { layout }: WaterfallScene,
  x: number,
  color: string,
  dash: readonly number[],
): void {
  if (x < layout.gutter - 1 || x > layout.width + 1) return;
  ctx.strokeStyle = color;
  ctx.lineWidth = 1;
  ctx.setLineDash([...dash]);
  ctx.beginPath();
  ctx.moveTo(Math.round(x) + 0.5, layout.axis - 4);
  ctx.lineTo(Math.round(x) + 0.5, layout.height);
  ctx.stroke();
  ctx.setLineDash([]);
}

const LABEL_PX = 15;
const ROWS = 2;

/** Labels of markers at the bottom, in rows, so that labels of near markers do not overlap. */
class LabelRow {
  readonly #ctx: CanvasRenderingContext2D;
  readonly #scene: WaterfallScene;
  readonly #ends: number[] = Array.from({ length: ROWS }, () => -Infinity);

  constructor(ctx: CanvasRenderingContext2D, scene: WaterfallScene) {
    this.#ctx = ctx;
    this.#scene = scene;
  }

  /** Draws a label right of x, or before it at the edge. A label without room is not drawn. */
  put(x: number, text: string, color: string): void {
    const ctx = this.#ctx;
    const { layout, theme } = this.#scene;
    const width = ctx.measureText(text).width + 8;
    const start = x + width + 3 > layout.width ? x - width - 3 : x + 3;
    const row = this.#ends.findIndex((end) => end < start);
    if (row === -1) return;
    this.#ends[row] = start + width;
    const top = layout.height - (row + 1) * (LABEL_PX + 2);
    ctx.fillStyle = theme.panel;
    ctx.beginPath();
    ctx.roundRect(start, top, width, LABEL_PX, 3);
    ctx.fill();
    ctx.fillStyle = color;
    ctx.fillText(text, start + 4, top + LABEL_PX / 2 + 0.5);
  }
}
