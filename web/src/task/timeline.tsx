import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { shortName } from '../state/frame-facts.ts';
import { duration, type Bar, type TimelineRow, type TaskView } from '../state/task-view.ts';

const ROW_PX = 28;
const EXTRA_ROWS = 10;
const BARS_PX = 72; // at most
const PITCH_PX = 14;
const LATE_MS = 30_000;
const TAIL_CHARS = 30;

interface Props {
  readonly view: TaskView;
  readonly now: number;
  readonly onPick: (row: TimelineRow) => void;
}

/**
 * Both lanes, top to bottom in the order of the log; only what is in sight is in the document. It
 * stays at the newest row while that is in sight. Arrow keys move, Enter opens.
 */
export function Timeline({ view, now, onPick }: Props): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const follows = useRef(true);
  const { rows } = view;

  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const look = (): void => {
      follows.current = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW_PX;
      setSight({ top: element.scrollTop, height: element.clientHeight });
    };
    look();
    element.addEventListener('scroll', look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      element.removeEventListener('scroll', look);
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
  const page = Math.max(1, Math.floor(sight.height / ROW_PX) - 1);
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

  const first = Math.max(0, Math.floor(sight.top / ROW_PX) - EXTRA_ROWS);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / ROW_PX) + EXTRA_ROWS);
  return (
    <div class="lanes" style={{ '--bars': `${Math.min(BARS_PX, view.tracks * PITCH_PX)}px` }}>
      <div class="heads" aria-hidden="true">
        <span>message lane</span>
        <span>control lane</span>
      </div>
      <div
        class="timeline"
        ref={scroller}
        role="listbox"
        aria-label="Timeline of both lanes"
        aria-activedescendant={active >= first && active < last ? `row-${active}` : undefined}
        tabIndex={0}
        onFocus={() =>
          active < 0 && setActive(Math.min(rows.length - 1, Math.ceil(sight.top / ROW_PX)))
        }
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          act();
        }}
      >
        <div class="rows" role="presentation" style={{ height: `${rows.length * ROW_PX}px` }}>
          {rows.slice(first, last).map((row, i) => (
            <Line
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

function Line({
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
  const classes = ['row', row.kind, row.tone, row.void && 'void', active && 'active'];
  return (
    <div
      id={`row-${index}`}
      class={classes.filter(Boolean).join(' ')}
      role="option"
      aria-selected={active}
      aria-posinset={index + 1}
      aria-setsize={count}
      style={{ top: `${index * ROW_PX}px` }}
      onClick={onPick}
    >
      <span class="seq">{row.seq}</span>
      <span class="message">{message}</span>
      <span class="control">{control}</span>
    </div>
  );
}

/** What a row says in each lane. A call is seen in both: who is called, and with what. */
function lanesOf(row: TimelineRow): readonly [string, string] {
  const words = rowLabel(row);
  if (row.kind === 'control') return ['', words];
  if (row.kind !== 'call') return [words, ''];
  const args = JSON.stringify(row.bar?.args ?? {});
  return [`calls ${shortName(words)}`, args === '{}' ? words : args.slice(0, 200)];
}

/** A row in a few words. */
export function rowLabel({ kind, text, growing, path, bar }: TimelineRow): string {
  const from = path ? `${path.join(' › ')}: ` : '';
  const tail = growing && text.length > TAIL_CHARS; // what grows is seen at its end
  const shown = tail ? `…${text.slice(-TAIL_CHARS)}` : text.slice(0, 200);
  const words = shown.replaceAll('\n', ' ');
  if (kind === 'reasoning') return `${from}(thinks) ${words}`;
  if (kind !== 'control' || !bar) return from + words;
  const span = bar.endedAt === undefined ? '' : ` ${duration(bar.endedAt - bar.startedAt)}`;
  const state = bar.state === 'answered' ? '' : ` (${bar.state})`;
  return `${words}${span}${state}`;
}

/** Everything that is known of a row: the frames of a call with its arguments and answer, or the event. */
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

function Bars({
  view: { bars, rows, tracks, contract, snapshot },
  now,
  first,
  last,
  onPick,
}: Props & { readonly first: number; readonly last: number }): VNode {
  const pitch = Math.min(PITCH_PX, BARS_PX / Math.max(1, tracks));
  const waits = new Set(snapshot?.pending.map(({ callId }) => callId));
  const look = (bar: Bar): string => {
    if (bar.state !== 'open') return bar.state.replace(' ', '-');
    if (contract.over) return 'lost';
    if (waits.has(bar.id)) return 'waits';
    return bar.kind === 'call' && now - bar.startedAt > LATE_MS ? 'late' : 'open';
  };
  return (
    <div class="bars" aria-hidden="true">
      {bars
        .filter(({ from, to = rows.length }) => from < last && to >= first)
        .map((bar) => {
          const to = bar.to ?? rows.length - 1;
          const row = rows[bar.from] as TimelineRow;
          return (
            <div
              key={`${bar.from}`}
              class={`bar ${bar.kind} ${look(bar)}`}
              style={{
                top: `${bar.from * ROW_PX + 5}px`,
                height: `${(to - bar.from + 1) * ROW_PX - 10}px`,
                right: `${bar.track * pitch + 4}px`,
                width: `${Math.max(1, pitch - 4)}px`,
              }}
              title={`${bar.name}: ${look(bar)}`}
              onClick={() => onPick(row)}
            />
          );
        })}
    </div>
  );
}
