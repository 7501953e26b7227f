import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { shortName } from '../state/frame-facts.ts';
import { duration, type Bar, type TimelineRow, type TaskView } from '../state/task-view.ts';

const ROW_PX = 28;
const EXTRA_ROWS = 10;
/** The width of all bars together, at most. */
const BARS_PX = 72;
const PITCH_PX = 14;
/** A tool call that takes longer is drawn as late. */
const LATE_MS = 30_000;
const TAIL_CHARS = 30;

interface Props {
  readonly view: TaskView;
  readonly now: number;
  readonly onPick: (row: TimelineRow) => void;
}

/**
 * Both lanes, top to bottom in the order of the log. Only the visible rows are in the document, so
 * that a task of 10,000 events scrolls smoothly. The timeline follows the newest row while that one
 * is visible. Arrow keys move, Enter opens a row.
 */
export function Timeline({ view, now, onPick }: Props): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [visible, setVisible] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const follows = useRef(true);
  const { rows } = view;

  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const measure = (): void => {
      follows.current = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW_PX;
      setVisible({ top: element.scrollTop, height: element.clientHeight });
    };
    measure();
    element.addEventListener('scroll', measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => {
      element.removeEventListener('scroll', measure);
      observer.disconnect();
    };
  }, []);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
  }, [rows.length]);

  const move = (to: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    const element = scroller.current;
    setActive(next);
    if (!element) return;
    const top = next * ROW_PX;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_PX > element.scrollTop + element.clientHeight)
      element.scrollTop = top + ROW_PX - element.clientHeight;
  };
  const page = Math.max(1, Math.floor(visible.height / ROW_PX) - 1);
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(active + 1),
    ArrowUp: () => move(active - 1),
    PageDown: () => move(active + page),
    PageUp: () => move(active - page),
    Home: () => move(0),
    End: () => move(rows.length - 1),
    Enter: () => {
      const row = rows[active];
      if (row) onPick(row);
    },
  };

  const first = Math.max(0, Math.floor(visible.top / ROW_PX) - EXTRA_ROWS);
  const last = Math.min(
    rows.length,
    Math.ceil((visible.top + visible.height) / ROW_PX) + EXTRA_ROWS,
  );
  return (
    <div class="timeline" style={{ '--bars': `${Math.min(BARS_PX, view.tracks * PITCH_PX)}px` }}>
      <div class="timeline-heads" aria-hidden="true">
        <span>message lane</span>
        <span>control lane</span>
      </div>
      <div
        class="timeline-scroller"
        ref={scroller}
        role="listbox"
        aria-label="Timeline of both lanes"
        aria-activedescendant={active >= first && active < last ? `row-${active}` : undefined}
        tabIndex={0}
        onFocus={() =>
          active < 0 && setActive(Math.min(rows.length - 1, Math.ceil(visible.top / ROW_PX)))
        }
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          act();
        }}
      >
        <div
          class="timeline-rows"
          role="presentation"
          style={{ height: `${rows.length * ROW_PX}px` }}
        >
          {rows.slice(first, last).map((row, i) => (
            <Row
              key={first + i}
              row={row}
              index={first + i}
              count={rows.length}
              active={first + i === active}
              onPick={() => {
                setActive(first + i);
                onPick(row);
              }}
            />
          ))}
          <Bars view={view} now={now} first={first} last={last} onPick={onPick} />
        </div>
      </div>
    </div>
  );
}

function Row({
  row,
  index,
  count,
  active,
  onPick,
}: {
  readonly row: TimelineRow;
  readonly index: number;
  readonly count: number;
  readonly active: boolean;
  readonly onPick: () => void;
}): VNode {
  const [message, control] = lanesOf(row);
  const kinds = [row.kind, row.tone, row.void && 'void', active && 'active'].filter(Boolean);
  return (
    <div
      id={`row-${index}`}
      class={['timeline-row', ...kinds.map((kind) => `timeline-row-${kind}`)].join(' ')}
      role="option"
      aria-selected={active}
      aria-posinset={index + 1}
      aria-setsize={count}
      style={{ top: `${index * ROW_PX}px` }}
      onClick={onPick}
    >
      <span class="timeline-seq">{row.seq}</span>
      <span class="timeline-message">{message}</span>
      <span class="timeline-control">{control}</span>
    </div>
  );
}

/**
 * The text of a row in each lane. A call is in both: the tool in one, the arguments in the other.
 */
function lanesOf(row: TimelineRow): readonly [string, string] {
  const label = rowLabel(row);
  if (row.kind === 'control') return ['', label];
  if (row.kind !== 'call') return [label, ''];
  const args = JSON.stringify(row.bar?.args ?? {});
  return [`calls ${shortName(label)}`, args === '{}' ? label : args.slice(0, 200)];
}

/** The text of a row, shortened to one line. */
export function rowLabel({ kind, text, growing, path, bar }: TimelineRow): string {
  const from = path ? `${path.join(' › ')}: ` : '';
  const tail = growing && text.length > TAIL_CHARS; // of a growing block the end is shown
  const shown = tail ? `…${text.slice(-TAIL_CHARS)}` : text.slice(0, 200);
  const line = shown.replaceAll('\n', ' ');
  if (kind === 'reasoning') return `${from}(thinks) ${line}`;
  if (kind !== 'control' || !bar) return from + line;
  const span = bar.endedAt === undefined ? '' : ` ${duration(bar.endedAt - bar.startedAt)}`;
  const state = bar.state === 'answered' ? '' : ` (${bar.state})`;
  return `${line}${span}${state}`;
}

/** The details of a row: of a call its arguments, result and frames, else the event. */
export function describeRow({ bar, raw, kind, seq, at, text }: TimelineRow): unknown {
  if (!bar) return raw ?? { kind, seq, at: new Date(at).toISOString(), text };
  const { id, name, state, args, output, startedAt, endedAt, frames } = bar;
  return {
    ...(bar.kind === 'call' ? { callId: id, name, args, output } : { request_id: id }),
    state,
    ...(endedAt !== undefined && { ms: endedAt - startedAt }),
    frames,
  };
}

/** The bars of calls and control requests beside the rows. */
function Bars({
  view: { bars, rows, tracks, contract, snapshot },
  now,
  first,
  last,
  onPick,
}: Props & { readonly first: number; readonly last: number }): VNode {
  const pitch = Math.min(PITCH_PX, BARS_PX / Math.max(1, tracks));
  const waiting = new Set(snapshot?.pending.map(({ callId }) => callId));
  const stateOf = (bar: Bar): string => {
    if (bar.state !== 'open') return bar.state;
    if (contract.over) return 'lost';
    if (waiting.has(bar.id)) return 'waiting';
    return bar.kind === 'call' && now - bar.startedAt > LATE_MS ? 'late' : 'open';
  };
  return (
    <div class="timeline-bars" aria-hidden="true">
      {bars
        .filter(({ from, to = rows.length }) => from < last && to >= first)
        .map((bar) => {
          const to = bar.to ?? rows.length - 1;
          const row = rows[bar.from] as TimelineRow;
          return (
            <div
              key={`${bar.from}`}
              class={`timeline-bar timeline-bar-${bar.kind} timeline-bar-${stateOf(bar)}`}
              style={{
                top: `${bar.from * ROW_PX + 5}px`,
                height: `${(to - bar.from + 1) * ROW_PX - 10}px`,
                right: `${bar.track * pitch + 4}px`,
                width: `${Math.max(1, pitch - 4)}px`,
              }}
              title={`${bar.name}: ${stateOf(bar)}`}
              onClick={() => onPick(row)}
            />
          );
        })}
    </div>
  );
}
