/** A visible part of time, in Unix ms. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** The shortest range that can be shown: one pixel is then some microseconds. */
const MIN_SPAN_MS = 5;
/** The empty part at the right of a range that shows everything, so that labels have room. */
const MARGIN = 0.04;

/** The range that shows everything from `from` to `to`. */
export function fitRange(from: number, to: number): TimeRange {
  const span = Math.max(to - from, MIN_SPAN_MS);
  return { from: from - span * 0.005, to: from + span * (1 + MARGIN) };
}

/** Keeps a range within the bounds, and at least `MIN_SPAN_MS` long. */
export function clampRange(range: TimeRange, bounds: TimeRange): TimeRange {
  const most = bounds.to - bounds.from;
  const span = Math.min(Math.max(range.to - range.from, MIN_SPAN_MS), most);
  const middle = (range.from + range.to) / 2;
  const from = Math.min(Math.max(middle - span / 2, bounds.from), bounds.to - span);
  return { from, to: from + span };
}

/** Zooms around a moment that keeps its position: `factor` below 1 shows less time. */
export function zoomRange(
  { from, to }: TimeRange,
  at: number,
  factor: number,
  bounds: TimeRange,
): TimeRange {
  const most = bounds.to - bounds.from;
  const span = Math.min(Math.max((to - from) * factor, MIN_SPAN_MS), most);
  const part = to > from ? (at - from) / (to - from) : 0.5;
  const start = Math.min(Math.max(at - part * span, bounds.from), bounds.to - span);
  return { from: start, to: start + span };
}

/** Moves a range by a part of its length. */
export function panRange({ from, to }: TimeRange, part: number, bounds: TimeRange): TimeRange {
  const by = (to - from) * part;
  return clampRange({ from: from + by, to: to + by }, bounds);
}

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800,
  604_800,
];
const TICK_STEPS_MS: readonly number[] = [...STEPS_MS, ...STEPS_S.map((s) => s * 1000)];

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** The ticks of a range: round times since `origin`, at most `most` of them. */
export function ticksOf({ from, to }: TimeRange, origin: number, most: number): readonly Tick[] {
  const wanted = (to - from) / Math.max(1, most);
  const step =
    TICK_STEPS_MS.find((ms) => ms >= wanted) ?? Math.ceil(wanted / 604_800_000) * 604_800_000;
  const ticks: Tick[] = [];
  for (let n = Math.max(0, Math.ceil((from - origin) / step)); origin + n * step <= to; n++)
    ticks.push({ at: origin + n * step, label: tickLabel(n * step, step) });
  return ticks;
}

function tickLabel(ms: number, step: number): string {
  if (ms === 0) return '0';
  if (step < 1000 && ms < 1000) return `${ms} ms`;
  if (ms < 60_000)
    return `${(ms / 1000).toFixed(step < 10 ? 3 : step < 100 ? 2 : step < 1000 ? 1 : 0)} s`;
  if (ms < 3_600_000) {
    const seconds = (ms % 60_000) / 1000;
    const shown =
      step < 1000 ? seconds.toFixed(2).padStart(5, '0') : String(seconds).padStart(2, '0');
    return step >= 60_000 ? `${ms / 60_000} min` : `${Math.floor(ms / 60_000)}:${shown}`;
  }
  if (ms < 172_800_000) return `${+(ms / 3_600_000).toFixed(step < 3_600_000 ? 2 : 0)} h`;
  return `${+(ms / 86_400_000).toFixed(1)} d`;
}
