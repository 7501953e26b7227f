import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ConversationPane } from './conversation-pane.tsx';
import { cancelTask, tracePath } from '../api.ts';
import type { ContractRule } from '../state/contract-check.ts';
import { Dialog } from '../ui/dialog.tsx';
import { nearestSpeed, SPEEDS, type Speed } from '../state/replay.ts';
import { State } from '../side/task-list.tsx';
import { describeRow, Timeline, rowLabel } from './timeline.tsx';
import { useTask, type ConnectionState, type LiveTask } from '../state/use-task.ts';
import { duration, type TimelineRow } from '../state/task-view.ts';
import { QuestionCard } from './question-card.tsx';

const CONNECTION_LABELS: Readonly<Record<ConnectionState, string>> = {
  opening: 'connecting',
  live: 'connected',
  lost: 'line lost, trying again',
  failed: 'stream failed; the task may go on',
  cut: 'cut by you; the task goes on',
  ended: 'stream ended',
  gone: 'There is no such task here.',
};

/** One task, live: what was said, cards that wait for a person, both lanes, the contract. */
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
    const wish = new URLSearchParams(location.search).get('replay');
    if (wish !== null) live.startReplay(nearestSpeed(Number(wish) || 1));
  }, [task]);
  const { view, replay } = live;
  if (live.line === 'gone') return <TaskNotFound />;
  return (
    <section class={replay ? 'task replaying' : 'task'} aria-label="Task">
      <header class="strip">
        <a class="back" href="#">
          All tasks
        </a>
        <Facts live={live} />
        <Buttons task={task} live={live} onError={onError} />
      </header>
      {!replay &&
        view.snapshot?.pending.map((request) => (
          <QuestionCard key={request.id} request={request} task={task} onError={onError} />
        ))}
      <div class="columns">
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
  <p class="empty" role="status">
    {CONNECTION_LABELS.gone} <a href="#">All tasks</a>
  </p>
);

/** The numbers of the run. Only state and line are read out as they change. */
function Facts({ live }: { readonly live: LiveTask }): VNode {
  const { view, line, replayed, now, replay } = live;
  const { snapshot, inFlight, cancelRequestedAt, endedAt } = view;
  if (!snapshot) return <span role="status">{CONNECTION_LABELS[line]}</span>;
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
    replayed !== undefined && `${replayed} replayed`,
  ];
  return (
    <>
      <span role="status">
        <State state={state} />{' '}
        <span class={`line ${line}`}>{replay ? 'replay' : CONNECTION_LABELS[line]}</span>
      </span>
      <span class="facts">
        <span>{snapshot.agent}</span>
        {facts.filter(Boolean).map((fact) => (
          <span key={String(fact).replace(/\d.*/, '')}>{fact}</span>
        ))}
      </span>
    </>
  );
}

function Buttons({
  task,
  live,
  onError,
}: {
  readonly task: string;
  readonly live: LiveTask;
  readonly onError: (error: unknown) => void;
}): VNode {
  const { view, line, replay } = live;
  const [chosen, setChosen] = useState<Speed>(10);
  const speed = replay?.speed ?? chosen;
  const over = view.contract.over || view.snapshot?.canceling === true;
  const cancel = (): void => void cancelTask(task).catch(onError);
  return (
    <span class="buttons">
      <button type="button" disabled={over || replay !== undefined} onClick={cancel}>
        Cancel
      </button>
      {line === 'cut' || line === 'failed' || line === 'lost' ? (
        <button type="button" onClick={live.reconnect}>
          Reconnect
        </button>
      ) : (
        <button type="button" disabled={line !== 'live'} onClick={live.cut}>
          Cut connection
        </button>
      )}
      <select
        aria-label="Replay speed"
        value={speed}
        onChange={(event) => {
          const wanted = SPEEDS[event.currentTarget.selectedIndex] ?? 1;
          setChosen(wanted);
          if (replay) replay.speed = wanted;
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
const SAID = { kept: 'kept', broken: 'broken', open: 'still open' } as const;

/** The promises of the stream, each with its tick, and in words what is broken or awaited. */
function ContractList({ rules }: { readonly rules: readonly ContractRule[] }): VNode {
  return (
    <ul class="contract" aria-label="Contract">
      {rules.map(({ name, state, detail }) => (
        <li key={name} class={state}>
          <span aria-hidden="true">{MARKS[state]}</span> {name}
          <span class="hidden">: {SAID[state]}</span>
          {detail && <small> ({detail})</small>}
        </li>
      ))}
    </ul>
  );
}
