import type { Lane, TraceSpan, SpanGroup } from '../state/span-board.ts';
import type { TimeRange } from './time-range.ts';

/** Where a group of spans is drawn: `pitch` is the height of one track. */
export interface GroupBox {
  readonly group: SpanGroup;
  readonly top: number;
  readonly height: number;
  readonly pitch: number;
  readonly label: string;
  readonly depth: number;
}

export interface LaneBox {
  readonly lane: Lane;
  readonly top: number;
  readonly height: number;
  readonly groups: readonly GroupBox[];
}

/** All positions of a waterfall, in CSS pixels. */
export interface WaterfallLayout {
  readonly width: number;
  readonly height: number;
  /** The left part with the names of the groups. */
  readonly gutter: number;
  /** The top part with the ticks. */
  readonly axis: number;
  /** The strip with the density of the text, in the message lane. */
  readonly spark: { readonly top: number; readonly height: number };
  readonly lanes: readonly LaneBox[];
}

const AXIS_PX = 26;
const LANE_GAP_PX = 10;
/** Below this height, heads and the density strip become flatter to leave room for the bars. */
const LOW_PX = 240;
const MAX_PITCH_PX = 26;
const MIN_PITCH_PX = 3;
const GROUP_GAP_PX = 4;
/** The labels of markers. */
const FOOT_PX = 36;

const GROUP_LABELS: Readonly<Record<SpanGroup['kind'], string>> = {
  text: 'text',
  calls: 'tool calls',
  waits: 'waits',
  requests: 'requests',
};

/**
 * Places both lanes in the given height. Many tracks share the room: they become flatter, so that
 * the number of calls that overlap stays visible without scrolling.
 */
export function layoutWaterfall(
  groups: readonly SpanGroup[],
  width: number,
  height: number,
): WaterfallLayout {
  const gutter = gutterOf(width);
  const isLow = height < LOW_PX;
  const headPx = isLow ? 17 : 22;
  const sparkPx = isLow ? 16 : 30;
  const tracks = Math.max(
    2,
    groups.reduce((sum, { tracks: { length } }) => sum + length, 0),
  );
  const fixed =
    AXIS_PX + FOOT_PX + 2 * headPx + 2 * LANE_GAP_PX + sparkPx + groups.length * GROUP_GAP_PX;
  const pitch = Math.min(MAX_PITCH_PX, Math.max(MIN_PITCH_PX, (height - fixed) / tracks));
  let y = AXIS_PX;
  const spark = { top: AXIS_PX + headPx, height: sparkPx };
  const lanes = (['message', 'control'] as const).map((lane): LaneBox => {
    const top = y;
    y += headPx + (lane === 'message' ? sparkPx + 2 : 0);
    const boxes = groups
      .filter((group) => group.lane === lane)
      .map((group): GroupBox => {
        const box = {
          group,
          top: y,
          height: group.tracks.length * pitch,
          pitch,
          label: group.path.at(-1) ?? GROUP_LABELS[group.kind],
          depth: group.path.length,
        };
        y += box.height + GROUP_GAP_PX;
        return box;
      });
    if (boxes.length === 0) y += pitch;
    y += LANE_GAP_PX;
    return { lane, top, height: y - LANE_GAP_PX / 2 - top, groups: boxes };
  });
  return { width, height, gutter, axis: AXIS_PX, spark, lanes };
}

/** The width of the names at the left; the mini-map leaves the same room, so that both align. */
export const gutterOf = (width: number): number => (width < 520 ? 64 : 108);

/** The x of a moment. */
export const xOf = ({ gutter, width }: WaterfallLayout, range: TimeRange, at: number): number =>
  gutter + ((at - range.from) / (range.to - range.from)) * (width - gutter);

/** The moment of an x. */
export const timeOf = ({ gutter, width }: WaterfallLayout, range: TimeRange, x: number): number =>
  range.from + ((x - gutter) / (width - gutter)) * (range.to - range.from);

/** A span that is narrower is found within so many pixels. */
const NEAR_PX = 5;

/** The span at a point: the one that covers it, else the nearest one beside it. */
export function spanAt(
  layout: WaterfallLayout,
  range: TimeRange,
  x: number,
  y: number,
  now: number,
): TraceSpan | undefined {
  const box = layout.lanes
    .flatMap(({ groups }) => groups)
    .find(({ top, height }) => y >= top && y < top + height);
  const track = box?.group.tracks[Math.floor((y - box.top) / box.pitch)];
  if (!track) return undefined;
  const at = timeOf(layout, range, x);
  const index = firstAfter(track, at);
  const found: { span: TraceSpan; off: number }[] = [];
  for (const span of [track[index - 1], track[index]]) {
    if (!span) continue;
    const from = xOf(layout, range, span.startedAt);
    const to = xOf(layout, range, span.endedAt ?? now);
    found.push({ span, off: Math.max(from - x, x - to, 0) });
  }
  const [best] = found.toSorted((a, b) => a.off - b.off);
  return best && best.off <= NEAR_PX ? best.span : undefined;
}

/** The index of the first span that starts after a moment. */
export function firstAfter(track: readonly TraceSpan[], at: number): number {
  let low = 0;
  let high = track.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((track[middle] as TraceSpan).startedAt <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}
