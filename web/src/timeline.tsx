import type { VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { CallBar, Row, TaskView } from './view.ts';

const ROW = 30;
const TRACK = 18;
const EXTRA_ROWS = 12;

interface Props {
  readonly view: TaskView;
  /** Changes with every entry: the view itself is one object. */
  readonly seq: number;
  readonly ended: boolean;
  readonly onPick: (picked: unknown) => void;
}

/** Both lanes, top to bottom in the order of the log. Only what is in sight is in the document. */
export function Timeline({ view, seq, ended, onPick }: Props): VNode {
  const scroller = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState({ top: 0, height: 600 });
  const stick = useRef(true);
  const { rows, bars } = view;

  useEffect(() => {
    const element = scroller.current;
    if (!element) return undefined;
    const look = (): void => {
      stick.current = element.scrollTop + element.clientHeight >= element.scrollHeight - ROW;
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
    if (element && stick.current) element.scrollTop = element.scrollHeight;
  }, [seq]);

  const first = Math.max(0, Math.floor(sight.top / ROW) - EXTRA_ROWS);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / ROW) + EXTRA_ROWS);
  const tracks = Math.max(1, ...bars.map((bar) => bar.track + 1));
  return (
    <div
      class="timeline"
      ref={scroller}
      role="log"
      aria-label="Both lanes, newest at the end"
      tabIndex={0}
    >
      <div class="rows" style={{ height: `${rows.length * ROW}px`, '--tracks': tracks }}>
        {rows.slice(first, last).map((row, i) => (
          <RowLine key={first + i} row={row} top={(first + i) * ROW} onPick={onPick} />
        ))}
        <div class="bars" aria-hidden="true">
          {bars
            .filter((bar) => bar.from < last && (bar.to ?? rows.length) >= first)
            .map((bar) => (
              <Bar
                key={bar.callId}
                bar={bar}
                end={bar.to ?? rows.length - 1}
                ended={ended}
                onPick={onPick}
              />
            ))}
        </div>
      </div>
    </div>
  );
}

function RowLine({ row, top, onPick }: { row: Row; top: number; onPick: Props['onPick'] }): VNode {
  const control = row.kind === 'control' || row.kind === 'call';
  return (
    <button
      type="button"
      class={`row ${row.kind} ${'tone' in row && row.tone ? row.tone : ''} ${'void' in row && row.void ? 'void' : ''}`}
      style={{ top: `${top}px` }}
      onClick={() =>
        onPick(row.kind === 'control' ? row.frame : row.kind === 'call' ? row.call : row)
      }
    >
      <span class="seq">{row.seq}</span>
      <span class="lane message">{control ? '' : label(row)}</span>
      <span class="lane control">{control ? label(row) : ''}</span>
    </button>
  );
}

function label(row: Row): string {
  switch (row.kind) {
    case 'call':
      return row.call.name.replace(/^mcp__/, '').replace('__', ' · ');
    case 'end':
      return `Ended: ${row.outcome}${row.text ? ` (${row.text})` : ''}`;
    case 'text':
      return row.text.slice(-160).replaceAll('\n', ' ');
    case 'reasoning':
      return `(thinking) ${row.text.slice(-120).replaceAll('\n', ' ')}`;
    case 'user':
      return row.text.slice(0, 160);
    case 'note':
    case 'control':
      return row.text;
  }
}

function Bar({
  bar,
  end,
  ended,
  onPick,
}: {
  bar: CallBar;
  end: number;
  ended: boolean;
  onPick: Props['onPick'];
}): VNode {
  const lost = ended && bar.outcome === undefined;
  return (
    <button
      type="button"
      tabIndex={-1}
      class={`bar ${lost ? 'lost' : (bar.outcome ?? 'running')}`}
      style={{
        top: `${bar.from * ROW + 4}px`,
        height: `${(end - bar.from + 1) * ROW - 8}px`,
        right: `${bar.track * TRACK + 6}px`,
      }}
      title={`${bar.name}${lost ? ': never answered' : ''}`}
      onClick={() => onPick(bar)}
    />
  );
}
