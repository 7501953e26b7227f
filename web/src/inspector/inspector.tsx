import type { ComponentChildren, VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Frame } from '../../../src/event/types.ts';
import { clockTime, duration, offsetTime } from '../state/format-time.ts';
import { readFrame } from '../state/frame-facts.ts';
import { rowLabel } from '../state/row-text.ts';
import type { TraceSpan } from '../state/span-board.ts';
import { laneOf, type TimelineRow } from '../state/timeline-row.ts';
import type { TaskView } from '../state/task-view.ts';
import { CopyButton } from '../ui/copy-button.tsx';
import controls from '../ui/controls.module.css';
import { TabBar } from '../ui/tab-bar.tsx';
import { curlText, evalCaseText } from './copy-formats.ts';
import styles from './inspector.module.css';

interface InspectorProps {
  readonly task: string;
  readonly view: TaskView;
  readonly row: TimelineRow;
  readonly now: number;
  /** Selects the next or the previous event. */
  readonly onMove: (by: number) => void;
  readonly onClose: () => void;
}

type TabId = 'summary' | 'input' | 'output' | 'frames' | 'timing' | 'entry';

const TABS: readonly { readonly id: TabId; readonly text: string }[] = [
  { id: 'summary', text: 'Summary' },
  { id: 'input', text: 'Input' },
  { id: 'output', text: 'Output' },
  { id: 'frames', text: 'Frames' },
  { id: 'timing', text: 'Timing' },
  { id: 'entry', text: 'Log entry' },
];

/** Everything about one event, beside the list, so that the next one is one key away. */
export function Inspector(props: InspectorProps): VNode {
  const { task, view, row, onMove, onClose } = props;
  const [tab, setTab] = useState<TabId>('summary');
  const { snapshot } = view;
  const frames = row.span?.frames.length ?? 0;
  const tabs = TABS.map(({ id, text }) => ({
    id,
    text: id === 'frames' && frames > 0 ? `${text} ${frames}` : text,
  }));
  return (
    <section
      class={styles['inspector']}
      aria-label="Inspector"
      data-part="inspector"
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (event.key === 'j') onMove(1);
        else if (event.key === 'k') onMove(-1);
        else if (event.key === 'Escape') onClose();
      }}
    >
      <div class={styles['head']}>
        <h2 class={styles['title']} title={row.text.slice(0, 400)}>
          <span class={styles['number']}>{row.seq}</span> {rowLabel(row)}
        </h2>
        <button
          type="button"
          aria-label="Previous event"
          title="Previous event (k)"
          onClick={() => onMove(-1)}
        >
          ↑
        </button>
        <button
          type="button"
          aria-label="Next event"
          title="Next event (j)"
          onClick={() => onMove(1)}
        >
          ↓
        </button>
        <button
          type="button"
          aria-label="Close the inspector"
          title="Close (Esc)"
          onClick={onClose}
        >
          ✕
        </button>
      </div>
      <TabBar
        label="Parts of the event"
        tabs={tabs}
        chosen={tab}
        onChoose={setTab}
        prefix="inspect"
      />
      <div
        id={`inspect-${tab}`}
        role="tabpanel"
        aria-labelledby={`inspect-tab-${tab}`}
        class={styles['body']}
        tabIndex={0}
      >
        <Body tab={tab} {...props} />
      </div>
      <div class={styles['foot']}>
        <CopyButton
          label="Copy link"
          title="The address of this event"
          text={() => `${location.origin}${location.pathname}#${task}/${row.seq}`}
        />
        <CopyButton label="Copy JSON" text={() => jsonText(describeRow(row))} />
        {snapshot && (
          <>
            <CopyButton
              label="Copy cURL"
              title="Sends the message of this task again, over A2A"
              text={() => curlText(snapshot, location.origin)}
            />
            <CopyButton
              label="Copy eval case"
              title="This run as a test case for duolane eval"
              text={() => evalCaseText(view)}
            />
          </>
        )}
      </div>
    </section>
  );
}

function Body({ tab, row, view, now }: InspectorProps & { readonly tab: TabId }): VNode {
  const { span } = row;
  switch (tab) {
    case 'summary':
      return <Summary row={row} view={view} now={now} />;
    case 'input':
      return <Value value={span?.args} empty="This event has no input." />;
    case 'output':
      return (
        <Value
          value={outputOf(row)}
          empty={span?.state === 'open' ? 'No result yet.' : 'This event has no output.'}
        />
      );
    case 'frames':
      return <Frames frames={framesOf(row)} origin={view.snapshot?.createdAt ?? 0} />;
    case 'timing':
      return <Timing row={row} view={view} now={now} />;
    case 'entry':
      return (
        <Value
          value={row.raw}
          empty={`A block of text is many entries, from number ${row.seq} on; export the trace to see each.`}
        />
      );
  }
}

const outputOf = ({ kind, span, text }: TimelineRow): unknown =>
  kind === 'text' || kind === 'reasoning' ? text : span?.output;

function framesOf({ span, raw }: TimelineRow): readonly Frame[] {
  if (span && span.frames.length > 0) return span.frames;
  const frame = (raw as { readonly frame?: Frame } | undefined)?.frame;
  return frame ? [frame] : [];
}

const jsonText = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');

function Value({ value, empty }: { readonly value: unknown; readonly empty: string }): VNode {
  if (value === undefined || value === null) return <p class={controls['soft']}>{empty}</p>;
  return (
    <>
      <CopyButton label="Copy" text={() => jsonText(value)} />
      <pre class={styles['value']} tabIndex={0}>
        {jsonText(value)}
      </pre>
    </>
  );
}

function Frames({
  frames,
  origin,
}: {
  readonly frames: readonly Frame[];
  readonly origin: number;
}): VNode {
  if (frames.length === 0)
    return <p class={controls['soft']}>No frame of the pipe belongs to this event.</p>;
  return (
    <ol class={styles['frames']}>
      {frames.map((frame, i) => (
        <li key={i} data-direction={frame.direction}>
          <div class={styles['frameHead']}>
            <strong>{frame.direction === 'in' ? '← from the agent' : '→ to the agent'}</strong>
            <span>
              {readFrame(frame).label} · {offsetTime(frame.at - origin)} s
              {frame.bytes !== undefined && ` · ${frame.bytes.toLocaleString()} bytes, shortened`}
              {frame.lost && ' · not delivered'}
            </span>
            <CopyButton label="Copy" text={() => JSON.stringify(frame.data)} />
          </div>
          <pre class={styles['value']} tabIndex={0}>
            {jsonText(frame.data)}
          </pre>
        </li>
      ))}
    </ol>
  );
}

interface FactsProps {
  readonly row: TimelineRow;
  readonly view: TaskView;
  readonly now: number;
}

const SPAN_STATES: Readonly<Record<TraceSpan['state'], string>> = {
  open: 'open',
  answered: 'done',
  failed: 'failed',
  unanswered: 'no response before the end of the run',
  lost: 'the response could not be delivered',
  void: 'discarded by a retry',
};

function Summary({ row, view, now }: FactsProps): VNode {
  const { span, path, by } = row;
  const origin = view.snapshot?.createdAt ?? row.at;
  const took = span && duration((span.endedAt ?? now) - span.startedAt);
  return (
    <>
      <dl class={styles['facts']}>
        <Pair name="Lane">{laneOf(row)}</Pair>
        {path && path.length > 0 && <Pair name="Sub-agent">{path.join(' › ')}</Pair>}
        {by !== undefined && <Pair name="By">{by}</Pair>}
        <Pair name="At">
          {offsetTime(row.at - origin)} s <small>{clockTime(row.at)}</small>
        </Pair>
        {span && <Pair name="State">{SPAN_STATES[span.state]}</Pair>}
        {took && <Pair name="Duration">{took}</Pair>}
        {span?.progress && <Pair name="Progress">{progressText(span.progress)}</Pair>}
      </dl>
      <div class={styles['text']}>{row.text}</div>
    </>
  );
}

const progressText = ({ message, done, total }: NonNullable<TraceSpan['progress']>): string =>
  [done !== undefined && (total ? `${done} of ${total}` : `${done}`), message]
    .filter(Boolean)
    .join(', ');

function Timing({ row, view, now }: FactsProps): VNode {
  const { span } = row;
  const origin = view.snapshot?.createdAt ?? row.at;
  const started = span?.startedAt ?? row.at;
  const ended = span?.endedAt;
  const length = Math.max(1, (view.endedAt ?? now) - origin);
  const share = span ? ((ended ?? now) - started) / length : 0;
  return (
    <dl class={styles['facts']}>
      <Pair name="Start">
        {offsetTime(started - origin)} s <small>{clockTime(started)}</small>
      </Pair>
      <Pair name="End">
        {ended === undefined ? (
          span ? (
            'open'
          ) : (
            '–'
          )
        ) : (
          <>
            {offsetTime(ended - origin)} s <small>{clockTime(ended)}</small>
          </>
        )}
      </Pair>
      {span && <Pair name="Duration">{duration((ended ?? now) - started)}</Pair>}
      {span && <Pair name="Share of the run">{`${(share * 100).toFixed(1)} %`}</Pair>}
      {(row.kind === 'text' || row.kind === 'reasoning') && span && (
        <Pair name="Speed">{speedText(row.text.length, (ended ?? now) - started)}</Pair>
      )}
    </dl>
  );
}

const speedText = (chars: number, ms: number): string =>
  ms > 0 ? `${Math.round((chars / ms) * 1000).toLocaleString()} characters a second` : '–';

const Pair = ({
  name,
  children,
}: {
  readonly name: string;
  readonly children: ComponentChildren;
}): VNode => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** An event as JSON: of a call its arguments, result and frames, else the entry. */
export function describeRow({ span, raw, kind, seq, at, text }: TimelineRow): unknown {
  if (!span || span.kind === 'text' || span.kind === 'reasoning')
    return raw ?? { kind, seq, at: new Date(at).toISOString(), text };
  const { id, name, state, args, output, startedAt, endedAt, frames } = span;
  return {
    ...(span.kind === 'call' ? { callId: id, name, args, output } : { id, name }),
    state,
    ...(endedAt !== undefined && { ms: endedAt - startedAt }),
    frames,
  };
}
