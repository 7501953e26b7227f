import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { sendAnswer } from '../api/requests.ts';
import { Inspector } from '../inspector/inspector.tsx';
import { nearestSpeed } from '../state/replay.ts';
import type { TimelineRow } from '../state/timeline-row.ts';
import { useTask, type LiveTask } from '../state/use-task.ts';
import { EventList } from '../trace/event-list.tsx';
import { Waterfall } from '../trace/waterfall.tsx';
import { TabBar } from '../ui/tab-bar.tsx';
import { ContractPanel } from './contract-panel.tsx';
import { ConversationPane } from './conversation-pane.tsx';
import { QuestionCard } from './question-card.tsx';
import { ReplayBar } from './replay-bar.tsx';
import { ReplyForm } from './reply-form.tsx';
import { TaskHeader } from './task-header.tsx';
import styles from './task-page.module.css';
import { useLayout, type PageLayout } from './use-layout.ts';

interface TaskProps {
  readonly task: string;
  /** The number of the entry in the address, which is selected. */
  readonly entry: number | undefined;
  readonly onError: (error: unknown) => void;
  /** Gets the live task after each drawing, for the tour. */
  readonly onLive?: (live: LiveTask) => void;
}

type PanelId = 'conversation' | 'timeline' | 'events' | 'details';

const TAB_NAMES: Readonly<Record<PanelId, string>> = {
  conversation: 'Conversation',
  timeline: 'Timeline',
  events: 'Events',
  details: 'Details',
};

/** Which panels the tabs show, for each layout. */
const TAB_PANELS: Readonly<Record<PageLayout, Partial<Record<PanelId, readonly PanelId[]>>>> = {
  wide: {},
  medium: { conversation: ['conversation'], timeline: ['timeline', 'events', 'details'] },
  phone: {
    conversation: ['conversation'],
    timeline: ['timeline'],
    events: ['events'],
    details: ['details'],
  },
};

/** One task: its conversation, both lanes over time, its events, and the details of one. */
export function Task({ task, entry, onError, onLive }: TaskProps): VNode {
  const live = useTask(task, onError);
  const layout = useLayout();
  const [tab, setTab] = useState<PanelId>(entry === undefined ? 'conversation' : 'details');
  const [hovered, setHovered] = useState<number>();
  const [selected, setSelected] = useState<number>();
  useEffect(() => {
    const speed = new URLSearchParams(location.search).get('replay');
    if (speed !== null) live.startReplay(nearestSpeed(Number(speed) || 1));
  }, [task]);
  const { view, replay, connection } = live;
  const { rows, contract } = view;
  const isLoaded = contract.seq >= (entry ?? 0) && rows.length > 0;
  useEffect(() => {
    if (entry !== undefined && isLoaded) setSelected(rowOfEntry(rows, entry));
  }, [entry, isLoaded]);
  useEffect(() => onLive?.(live));

  const select = (index: number): void => {
    const row = rows[index];
    if (!row) return;
    setSelected(index);
    history.replaceState(null, '', `#${task}/${row.seq}`);
    if (layout === 'phone') setTab('details');
  };
  const close = (): void => {
    setSelected(undefined);
    history.replaceState(null, '', `#${task}`);
  };
  const showContract = (): void => {
    close();
    setTab(layout === 'phone' ? 'details' : 'timeline');
  };

  if (connection.state === 'gone') return <TaskNotFound />;
  const tabs = TAB_PANELS[layout];
  const isTabbed = layout !== 'wide';
  const shownTab = tabs[tab] ? tab : 'timeline';
  const panel = (id: PanelId, children: ComponentChildren): VNode => {
    const isShown = !isTabbed || tabs[shownTab]?.includes(id) === true;
    const role = isTabbed && id === shownTab ? ({ role: 'tabpanel' } as const) : {};
    return (
      <div
        class={styles['panel']}
        id={`panel-${id}`}
        data-panel={id}
        hidden={!isShown}
        {...role}
        {...(role.role && { 'aria-labelledby': `panel-tab-${id}` })}
      >
        {children}
      </div>
    );
  };
  const row = selected === undefined ? undefined : rows[selected];
  const pending = replay ? [] : (view.snapshot?.pending ?? []);
  return (
    <section class={styles['page']} aria-label="Task" data-part="task">
      <TaskHeader task={task} live={live} onContract={showContract} onError={onError} />
      {replay && <ReplayBar replay={replay} onChange={live.redraw} />}
      {isTabbed && (
        <TabBar
          label="Parts of the task"
          prefix="panel"
          chosen={shownTab}
          onChoose={setTab}
          tabs={(Object.keys(tabs) as PanelId[]).map((id) => ({
            id,
            text: tabText(id, layout, pending.length),
          }))}
        />
      )}
      <div class={styles['grid']} data-layout={layout}>
        {panel(
          'conversation',
          <>
            <ConversationPane view={view} />
            {pending.length > 0 && (
              <div class={styles['questions']}>
                {pending.map((request) => (
                  <QuestionCard
                    key={request.id}
                    request={request}
                    send={(given) => sendAnswer(task, given)}
                    onError={onError}
                  />
                ))}
              </div>
            )}
            {contract.over && view.snapshot && !replay && (
              <ReplyForm snapshot={view.snapshot} onError={onError} />
            )}
          </>,
        )}
        {panel(
          'timeline',
          <Waterfall
            view={view}
            cuts={replay ? [] : connection.cuts}
            clock={live.clock}
            isLive={live.isLive}
            hovered={hovered}
            selected={selected}
            onHover={setHovered}
            onSelect={select}
          />,
        )}
        {panel(
          'events',
          <EventList
            view={view}
            isLive={live.isLive || replay !== undefined}
            hovered={hovered}
            selected={selected}
            onHover={setHovered}
            onSelect={select}
          />,
        )}
        {panel(
          'details',
          row ? (
            <Inspector
              task={task}
              view={view}
              row={row}
              now={live.clock()}
              onMove={(by) => select((selected ?? 0) + by)}
              onClose={close}
            />
          ) : (
            <ContractPanel
              rules={contract.rules}
              onShow={(seq) => select(rowOfEntry(rows, seq) ?? 0)}
            />
          ),
        )}
      </div>
    </section>
  );
}

function tabText(id: PanelId, layout: PageLayout, pending: number): string {
  if (id === 'conversation' && pending > 0) return `${TAB_NAMES[id]} (${pending})`;
  return id === 'timeline' && layout === 'medium' ? 'Trace' : TAB_NAMES[id];
}

/** The row that shows an entry: its own, or the one before it, into which it was folded. */
function rowOfEntry(rows: readonly TimelineRow[], seq: number): number | undefined {
  const found = rows.findLastIndex((row) => row.seq <= seq);
  return found === -1 ? undefined : found;
}

const TaskNotFound = (): VNode => (
  <div class={styles['missing']} role="status">
    <h1>Task not found</h1>
    <p>
      It may have been deleted, or it belongs to someone else. <a href="#">All runs</a>
    </p>
  </div>
);
