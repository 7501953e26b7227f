import type { VNode } from 'preact';
import { memo } from 'preact/compat';
import { useEffect, useState } from 'preact/hooks';
import { duration, offsetTime } from '../state/format-time.ts';
import { rowLabel } from '../state/row-text.ts';
import { laneOf, type TimelineRow } from '../state/timeline-row.ts';
import type { TaskView } from '../state/task-view.ts';
import { ALL_EVENTS, matchingRows, type EventFilter } from './event-filter.ts';
import styles from './event-list.module.css';
import { useVirtualRows } from './use-virtual-rows.ts';

const ROW_PX = 26;

interface EventListProps {
  readonly view: TaskView;
  readonly isLive: boolean;
  /** Indexes of rows. */
  readonly hovered: number | undefined;
  readonly selected: number | undefined;
  readonly onHover: (row: number | undefined) => void;
  readonly onSelect: (row: number) => void;
}

/**
 * All events from top to bottom in the order of the log. Only visible rows are in the document.
 * It follows the newest row while that one is visible. Arrow keys, j and k select.
 */
export function EventList(props: EventListProps): VNode {
  const { view, isLive, hovered, selected, onHover, onSelect } = props;
  const [filter, setFilter] = useState<EventFilter>(ALL_EVENTS);
  const { rows } = view;
  const matching = matchingRows(rows, filter);
  const count = matching?.length ?? rows.length;
  const rowAt = (position: number): number => matching?.[position] ?? position;
  const { ref, first, end, page, reveal } = useVirtualRows(
    count,
    ROW_PX,
    isLive && selected === undefined,
  );
  const position = selected === undefined ? -1 : matching ? matching.indexOf(selected) : selected;
  const move = (to: number): void => {
    const next = Math.max(0, Math.min(count - 1, to));
    if (count > 0) onSelect(rowAt(next));
  };
  useEffect(() => {
    if (position >= 0) reveal(position);
  }, [position]);
  const keys: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(position + 1),
    ArrowUp: () => move(position - 1),
    j: () => move(position + 1),
    k: () => move(position - 1),
    PageDown: () => move(position + page),
    PageUp: () => move(position - page),
    Home: () => move(0),
    End: () => move(count - 1),
  };
  const origin = view.snapshot?.createdAt ?? 0;
  const lastSeq = view.contract.seq;
  return (
    <section class={styles['list']} aria-label="Events" data-part="events">
      <FilterBar filter={filter} onChange={setFilter} count={count} total={rows.length} />
      <div
        class={styles['scroller']}
        ref={ref}
        role="listbox"
        aria-label="Events of both lanes"
        data-part="event-rows"
        aria-activedescendant={
          position >= first && position < end ? `event-${selected}` : undefined
        }
        tabIndex={0}
        onMouseLeave={() => onHover(undefined)}
        onKeyDown={(event) => {
          const act = keys[event.key];
          if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
          event.preventDefault();
          act();
        }}
      >
        <div class={styles['rows']} role="presentation" style={{ height: `${count * ROW_PX}px` }}>
          {Array.from({ length: Math.max(0, end - first) }, (_, i) => {
            const place = first + i;
            const index = rowAt(place);
            const row = rows[index] as TimelineRow;
            const { span } = row;
            const spanFrom = hovered === undefined ? undefined : rows[hovered]?.span;
            return (
              <EventRow
                key={index}
                index={index}
                place={place}
                count={count}
                kind={row.kind}
                lane={laneOf(row)}
                tone={row.tone ?? ''}
                isVoid={row.void === true}
                depth={row.path?.length ?? 0}
                seq={row.seq}
                more={matching ? 0 : (rows[index + 1]?.seq ?? lastSeq + 1) - row.seq - 1}
                time={offsetTime(row.at - origin)}
                label={rowLabel(row)}
                took={
                  span?.endedAt !== undefined && row.kind !== 'result' && row.kind !== 'answer'
                    ? duration(span.endedAt - span.startedAt)
                    : span && span.state === 'open'
                      ? '…'
                      : ''
                }
                state={span?.state ?? ''}
                isSelected={index === selected}
                isHovered={index === hovered || (spanFrom !== undefined && row.span === spanFrom)}
                onHover={onHover}
                onSelect={onSelect}
              />
            );
          })}
        </div>
        {count === 0 && (
          <p class={styles['empty']}>
            {rows.length === 0 ? 'No event yet.' : 'No event matches the filter.'}
          </p>
        )}
      </div>
    </section>
  );
}

interface EventRowProps {
  readonly index: number;
  readonly place: number;
  readonly count: number;
  readonly kind: TimelineRow['kind'];
  readonly lane: 'message' | 'control';
  readonly tone: string;
  readonly isVoid: boolean;
  readonly depth: number;
  readonly seq: number;
  /** Entries before the next row that have no row: deltas and frames. */
  readonly more: number;
  readonly time: string;
  readonly label: string;
  readonly took: string;
  readonly state: string;
  readonly isSelected: boolean;
  readonly isHovered: boolean;
  readonly onHover: (row: number) => void;
  readonly onSelect: (row: number) => void;
}

const ICONS: Readonly<Record<TimelineRow['kind'], string>> = {
  user: '▸',
  question: '?',
  answer: '!',
  text: '¶',
  reasoning: '∴',
  note: '·',
  call: '→',
  result: '←',
  control: '⇄',
  end: '■',
};

/** All properties are simple values, so that a row is drawn again only if it changed. */
const EventRow = memo((props: EventRowProps): VNode => {
  const { index, place, more, lane, depth } = props;
  return (
    <div
      id={`event-${index}`}
      class={styles['row']}
      role="option"
      aria-selected={props.isSelected}
      aria-posinset={place + 1}
      aria-setsize={props.count}
      data-kind={props.kind}
      data-lane={lane}
      data-tone={props.tone}
      data-state={props.state}
      data-void={props.isVoid}
      data-hovered={props.isHovered}
      title={props.label}
      style={{ top: `${place * ROW_PX}px` }}
      onMouseEnter={() => props.onHover(index)}
      onClick={() => props.onSelect(index)}
    >
      <span class={styles['time']}>{props.time}</span>
      <span class={styles['seq']} title={more > 0 ? `and ${more} deltas or frames after it` : ''}>
        {props.seq}
        {more > 0 && <small>+{more}</small>}
      </span>
      <span class={styles['icon']} aria-hidden="true">
        {ICONS[props.kind]}
      </span>
      <span class={styles['label']} style={{ paddingLeft: `${depth * 14}px` }}>
        {props.label}
      </span>
      <span class={styles['took']}>{props.took}</span>
    </div>
  );
});

const LANES = ['all', 'message', 'control'] as const;

function FilterBar({
  filter,
  onChange,
  count,
  total,
}: {
  readonly filter: EventFilter;
  readonly onChange: (filter: EventFilter) => void;
  readonly count: number;
  readonly total: number;
}): VNode {
  return (
    <div class={styles['filters']}>
      <input
        type="search"
        class={styles['search']}
        aria-label="Search events"
        placeholder="Search text, tools, arguments"
        value={filter.text}
        onInput={(event) => onChange({ ...filter, text: event.currentTarget.value })}
      />
      <span class={styles['chips']} role="group" aria-label="Lane">
        {LANES.map((lane) => (
          <button
            key={lane}
            type="button"
            class={styles['chip']}
            aria-pressed={filter.lane === lane}
            onClick={() => onChange({ ...filter, lane })}
          >
            {lane}
          </button>
        ))}
      </span>
      <button
        type="button"
        class={styles['chip']}
        aria-pressed={filter.onlyProblems}
        onClick={() => onChange({ ...filter, onlyProblems: !filter.onlyProblems })}
      >
        problems
      </button>
      <span class={styles['count']}>{count === total ? total : `${count} of ${total}`}</span>
    </div>
  );
}
