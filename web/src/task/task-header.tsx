import type { ComponentChildren, VNode } from 'preact';
import { cancelTask, startTask, tracePath } from '../api/requests.ts';
import { duration } from '../state/format-time.ts';
import { titleText } from '../state/row-text.ts';
import type { ConnectionState } from '../state/types.ts';
import type { LiveTask } from '../state/use-task.ts';
import { cutText } from '../trace/marker-painter.ts';
import controls from '../ui/controls.module.css';
import { StatePill } from '../ui/state-pill.tsx';
import styles from './task-header.module.css';

interface HeaderProps {
  readonly task: string;
  readonly live: LiveTask;
  readonly onContract: () => void;
  readonly onError: (error: unknown) => void;
}

/** The state of a task, what can be done with it, and its numbers. */
export function TaskHeader(props: HeaderProps): VNode {
  const { live } = props;
  const { snapshot } = live.view;
  const [first] = live.view.talk;
  const title = first?.kind === 'user' ? titleText(first.text) : 'Task';
  return (
    <header class={styles['header']} data-part="task-header">
      <div class={styles['top']}>
        <span class={styles['state']} role="status">
          <StatePill state={live.state} />
          {live.state.detail && <span class={styles['detail']}>{live.state.detail}</span>}
          {live.replay && <span class={styles['detail']}>replay</span>}
        </span>
        <span class={styles['name']}>
          <span class={styles['agent']}>{snapshot?.agent}</span>
          <h1 class={styles['title']} title={title}>
            {title}
          </h1>
        </span>
        <Buttons {...props} />
      </div>
      <Facts {...props} />
    </header>
  );
}

/** States in which the user may reconnect, also before the next automatic attempt. */
const RECONNECTABLE: ReadonlySet<ConnectionState> = new Set([
  'disconnected',
  'failed',
  'lost',
  'silent',
]);

function Buttons({ task, live, onError }: HeaderProps): VNode {
  const { view, connection, replay } = live;
  const { snapshot } = view;
  const isOver = view.contract.over;
  const cancel = (): void => void cancelTask(task).catch(onError);
  const again = async (): Promise<void> => {
    const part = snapshot?.turns[0]?.parts[0];
    if (!snapshot || !part) return;
    try {
      const input =
        'data' in part ? { data: part.data } : { text: 'text' in part ? part.text : '' };
      location.hash = (await startTask(snapshot.agent, input)).task;
    } catch (error) {
      onError(error);
    }
  };
  return (
    <span class={`${controls['group']} ${styles['buttons']}`}>
      {isOver ? (
        <button type="button" disabled={replay !== undefined} onClick={() => void again()}>
          Run again
        </button>
      ) : (
        <button
          type="button"
          disabled={snapshot?.canceling === true || replay !== undefined}
          onClick={cancel}
        >
          Cancel
        </button>
      )}
      {RECONNECTABLE.has(connection.state) ? (
        <button type="button" class={controls['primary']} onClick={connection.reconnect}>
          Reconnect
        </button>
      ) : (
        <button
          type="button"
          disabled={connection.state !== 'live'}
          title="Cuts the stream of this page. The task continues; Reconnect replays what is missing."
          onClick={connection.disconnect}
        >
          Disconnect
        </button>
      )}
      {replay ? (
        <button type="button" onClick={live.stopReplay}>
          {replay.done ? 'End replay' : 'Stop replay'}
        </button>
      ) : (
        <button type="button" onClick={() => live.startReplay(10)}>
          Replay
        </button>
      )}
      <a class={controls['linkButton']} href={tracePath(task)} download={`${task}.jsonl`}>
        Export trace
      </a>
    </span>
  );
}

/** The numbers of the run. Each has its place from the first event on, so nothing moves. */
function Facts({ live, onContract }: HeaderProps): VNode {
  const { view, connection, clock } = live;
  const { snapshot, calls, endedAt, cancelRequestedAt } = view;
  const { createdAt = 0, firstTextAt, usage, attempt = 1, state } = snapshot ?? {};
  const tokens = [usage?.inputTokens, usage?.outputTokens];
  const canceled =
    state === 'canceled' && endedAt !== undefined && cancelRequestedAt !== undefined
      ? `canceled in ${duration(endedAt - cancelRequestedAt)}`
      : undefined;
  const cost = usage?.costUsd;
  return (
    <dl class={styles['facts']}>
      <Fact name="Elapsed" note={canceled ?? (attempt > 1 ? `attempt ${attempt}` : undefined)}>
        {snapshot ? duration((endedAt ?? clock()) - createdAt) : '–'}
      </Fact>
      <Fact name="First token">
        {firstTextAt === undefined ? '–' : duration(firstTextAt - createdAt)}
      </Fact>
      <Fact name="Tokens" note={cost ? `$${cost.toFixed(4)}` : undefined}>
        {tokens.some(Boolean)
          ? `${(tokens[0] ?? 0).toLocaleString()} in, ${(tokens[1] ?? 0).toLocaleString()} out`
          : '–'}
      </Fact>
      <Fact name="Tool calls" note={calls.failed > 0 ? `${calls.failed} failed` : undefined}>
        {calls.total}
        {view.inFlight.length > 0 && `, ${view.inFlight.length} open`}
      </Fact>
      <Fact name="Events">{view.contract.seq.toLocaleString()}</Fact>
      <Fact name="Stream">
        <StreamFact state={connection.state} cut={lastCut(live)} />
      </Fact>
      <Fact name="Contract">
        <ContractBadge live={live} onContract={onContract} />
      </Fact>
    </dl>
  );
}

const Fact = ({
  name,
  note,
  children,
}: {
  readonly name: string;
  readonly note?: string | undefined;
  readonly children: ComponentChildren;
}): VNode => (
  <div class={styles['fact']} data-fact={name}>
    <dt>{name}</dt>
    <dd>
      {children}
      {note && <small>{note}</small>}
    </dd>
  </div>
);

const STREAM_TEXTS: Readonly<Record<ConnectionState, string>> = {
  opening: 'connecting',
  live: 'connected',
  silent: 'silent',
  lost: 'reconnecting',
  failed: 'failed',
  disconnected: 'disconnected',
  ended: 'ended',
  gone: 'not found',
};

const lastCut = ({ connection }: LiveTask): string | undefined => {
  const cut = connection.cuts.at(-1);
  return cut?.to === undefined ? undefined : cutText(cut);
};

const StreamFact = ({
  state,
  cut,
}: {
  readonly state: ConnectionState;
  readonly cut: string | undefined;
}): VNode => (
  <span data-part="stream" data-connection={state}>
    {STREAM_TEXTS[state]}
    {cut && (
      <small class={styles['cut']} data-part="cut">
        {cut}
      </small>
    )}
  </span>
);

/** How many rules of the contract hold; a click shows the evidence. */
function ContractBadge({
  live,
  onContract,
}: {
  readonly live: LiveTask;
  readonly onContract: () => void;
}): VNode {
  const { rules } = live.view.contract;
  const broken = rules.filter(({ state }) => state === 'broken').length;
  const kept = rules.filter(({ state }) => state === 'kept').length;
  return (
    <button
      type="button"
      class={styles['badge']}
      data-part="contract-badge"
      data-result={broken > 0 ? 'broken' : kept === rules.length ? 'kept' : 'open'}
      title="Show what proves each rule"
      onClick={onContract}
    >
      {broken > 0 ? `✕ ${broken} broken` : `✓ ${kept} of ${rules.length} kept`}
    </button>
  );
}
