import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ConversationPane } from './conversation-pane.tsx';
import { cancelTask, tracePath } from '../api.ts';
import type { ContractRule } from '../state/contract-check.ts';
import { Dialog } from '../ui/dialog.tsx';
import { nearestSpeed, SPEEDS, type Speed } from '../state/replay.ts';
import { State } from '../side/task-list.tsx';
import { describeRow, Timeline, rowLabel } from './timeline.tsx';
import type { ConnectionState } from '../state/use-connection.ts';
import { useTask, type LiveTask } from '../state/use-task.ts';
import { duration, type TimelineRow } from '../state/task-view.ts';
import { QuestionCard } from './question-card.tsx';

const CONNECTION_LABELS: Readonly<Record<ConnectionState, string>> = {
  opening: 'Connecting',
  live: 'Connected',
  lost: 'Connection lost, reconnecting',
  failed: 'Stream failed; the task may continue',
  disconnected: 'Disconnected by you; the task continues',
  ended: 'Stream ended',
  gone: 'Task not found; it may have been deleted.',
};

/** One task: its conversation, open questions, both lanes, and the check of the stream contract. */
export function Task({
  task,
  onError,
}: {
  readonly task: string;
  readonly onError: (error: unknown) => void;
}): VNode {
  const live = useTask(task, onError);
  const [picked, setPicked] = useState<TimelineRow>();
  useEffect(() => {
    const speed = new URLSearchParams(location.search).get('replay');
    if (speed !== null) live.startReplay(nearestSpeed(Number(speed) || 1));
  }, [task]);
  const { view, replay } = live;
  if (live.connection.state === 'gone') return <TaskNotFound />;
  return (
    <section class={replay ? 'task-page task-page-replaying' : 'task-page'} aria-label="Task">
      <header class="task-header">
        <a class="task-back" href="#">
          All tasks
        </a>
        <Facts live={live} />
        <Buttons task={task} live={live} onError={onError} />
      </header>
      {!replay &&
        view.snapshot?.pending.map((request) => (
          <QuestionCard key={request.id} request={request} task={task} onError={onError} />
        ))}
      <div class="task-columns">
        <ConversationPane view={view} />
        <Timeline view={view} now={live.now} onPick={setPicked} />
      </div>
      <ContractList rules={view.contract.rules} />
      {picked && (
        <Dialog
          title={`Event ${picked.seq}: ${rowLabel(picked)}`}
          onClose={() => setPicked(undefined)}
        >
          <pre tabIndex={0}>{JSON.stringify(describeRow(picked), null, 2)}</pre>
        </Dialog>
      )}
    </section>
  );
}

const TaskNotFound = (): VNode => (
  <p class="app-empty" role="status">
    {CONNECTION_LABELS.gone} <a href="#">All tasks</a>
  </p>
);

/** The numbers of the run. Screen readers announce only the state and the connection. */
function Facts({ live }: { readonly live: LiveTask }): VNode {
  const { view, connection, now, replay } = live;
  const { snapshot, inFlight, cancelRequestedAt, endedAt } = view;
  if (!snapshot) return <span role="status">{CONNECTION_LABELS[connection.state]}</span>;
  const { createdAt, firstTextAt, usage, attempt, state } = snapshot;
  const facts = [
    attempt > 1 && `attempt ${attempt}`,
    `${duration((endedAt ?? (replay ? snapshot.updatedAt : now)) - createdAt)}`,
    firstTextAt !== undefined && `first token ${duration(firstTextAt - createdAt)}`,
    usage?.inputTokens ? `${usage.inputTokens.toLocaleString()} tokens in` : '',
    usage?.outputTokens ? `${usage.outputTokens.toLocaleString()} tokens out` : '',
    inFlight.length > 0 && `${inFlight.length} in flight`,
    `event ${view.contract.seq}`,
    cancelRequestedAt !== undefined &&
      endedAt !== undefined &&
      state === 'canceled' &&
      `canceled in ${duration(endedAt - cancelRequestedAt)}`,
    connection.replayed !== undefined && `${connection.replayed} replayed`,
  ];
  return (
    <>
      <span role="status">
        <State state={state} />{' '}
        <span class={`connection connection-${connection.state}`}>
          {replay ? 'Replay' : CONNECTION_LABELS[connection.state]}
        </span>
      </span>
      <span class="task-facts">
        <span>{snapshot.agent}</span>
        {facts.filter(Boolean).map((fact) => (
          <span key={String(fact).replace(/\d.*/, '')}>{fact}</span>
        ))}
      </span>
    </>
  );
}

/** States in which the user may reconnect, also before the next automatic attempt. */
const RECONNECTABLE: ReadonlySet<ConnectionState> = new Set(['disconnected', 'failed', 'lost']);

function Buttons({
  task,
  live,
  onError,
}: {
  readonly task: string;
  readonly live: LiveTask;
  readonly onError: (error: unknown) => void;
}): VNode {
  const { view, connection, replay } = live;
  const [chosen, setChosen] = useState<Speed>(10);
  const speed = replay?.speed ?? chosen;
  const over = view.contract.over || view.snapshot?.canceling === true;
  const cancel = (): void => void cancelTask(task).catch(onError);
  return (
    <span class="button-group">
      <button type="button" disabled={over || replay !== undefined} onClick={cancel}>
        Cancel
      </button>
      {RECONNECTABLE.has(connection.state) ? (
        <button type="button" onClick={connection.reconnect}>
          Reconnect
        </button>
      ) : (
        <button
          type="button"
          disabled={connection.state !== 'live'}
          onClick={connection.disconnect}
        >
          Disconnect
        </button>
      )}
      <select
        aria-label="Replay speed"
        value={speed}
        onChange={(event) => {
          const next = SPEEDS[event.currentTarget.selectedIndex] ?? 1;
          setChosen(next);
          if (replay) replay.speed = next;
        }}
      >
        {SPEEDS.map((one) => (
          <option key={one} value={one}>
            {one}x
          </option>
        ))}
      </select>
      {replay ? (
        <button type="button" onClick={live.stopReplay}>
          {replay.done ? 'End replay' : 'Stop replay'}
        </button>
      ) : (
        <button type="button" onClick={() => live.startReplay(speed)}>
          Replay
        </button>
      )}
      <a class="button" href={tracePath(task)} download={`${task}.jsonl`}>
        Export trace
      </a>
    </span>
  );
}

const MARKS = { kept: '✓', broken: '✗', open: '…' } as const;
const STATE_TEXTS = { kept: 'kept', broken: 'broken', open: 'still open' } as const;

/** The rules of the stream contract, each with its result and what is broken or still expected. */
function ContractList({ rules }: { readonly rules: readonly ContractRule[] }): VNode {
  return (
    <ul class="contract" aria-label="Contract">
      {rules.map(({ name, state, detail }) => (
        <li key={name} class={`contract-${state}`}>
          <span aria-hidden="true">{MARKS[state]}</span> {name}
          <span class="text-hidden">: {STATE_TEXTS[state]}</span>
          {detail && <small> ({detail})</small>}
        </li>
      ))}
    </ul>
  );
}
