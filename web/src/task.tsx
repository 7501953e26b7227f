import type { VNode } from 'preact';
import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { isFinal } from '../../src/event/contract.ts';
import type { InputRequest } from '../../src/ask.ts';
import { cancelTask, sendAnswer, subscribe, type Subscription } from './api.ts';
import { Markdown } from './markdown.tsx';
import { Timeline } from './timeline.tsx';
import { TaskView } from './view.ts';

type Line = 'live' | 'cut' | 'ended';

/** One task, live: answer, cards that wait for a person, both lanes, the contract. */
export function Task({
  task,
  onError,
}: {
  readonly task: string;
  readonly onError: (error: unknown) => void;
}): VNode {
  const view = useRef(new TaskView());
  const line = useRef<Subscription | undefined>(undefined);
  const [state, setState] = useState<Line>('live');
  const [replayed, setReplayed] = useState<number>();
  const [picked, setPicked] = useState<unknown>();
  const [, draw] = useReducer((n: number) => n + 1, 0);

  const connect = (): void => {
    const after = view.current.snapshot?.seq ?? 0;
    const since = Date.now();
    let missed = 0;
    let frame = 0;
    line.current = subscribe(task, after, {
      entry(entry) {
        if (after > 0 && entry.at < since) setReplayed(++missed);
        view.current.feed(entry);
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          draw(undefined);
        });
      },
      state: setState,
    });
  };
  useEffect(() => {
    view.current = new TaskView();
    setReplayed(undefined);
    setPicked(undefined);
    connect();
    return () => line.current?.close();
  }, [task]);

  const { snapshot } = view.current;
  const over = snapshot !== undefined && isFinal(snapshot.state);
  const cut = (): void => {
    line.current?.close();
    setState('cut');
  };
  const ttft =
    snapshot?.firstTextAt === undefined ? undefined : snapshot.firstTextAt - snapshot.createdAt;
  return (
    <section class="task" aria-label="Task">
      <header class="strip">
        <span class={`state ${snapshot?.state ?? ''}`}>{snapshot?.state ?? 'opening'}</span>
        <span>{snapshot?.agent}</span>
        {ttft !== undefined && <span>first token {ttft} ms</span>}
        {snapshot?.usage?.outputTokens !== undefined && (
          <span>{snapshot.usage.outputTokens} tokens out</span>
        )}
        <span>event {snapshot?.seq ?? 0}</span>
        <span class={`line ${state}`}>
          {state === 'live' ? 'connected' : state === 'cut' ? 'cut' : 'complete'}
        </span>
        {replayed !== undefined && <span>{replayed} replayed</span>}
        <span class="buttons">
          <button
            type="button"
            disabled={over}
            onClick={() => void cancelTask(task).catch(onError)}
          >
            Cancel
          </button>
          <button type="button" disabled={state !== 'live'} onClick={cut}>
            Cut connection
          </button>
          <button type="button" disabled={state !== 'cut'} onClick={connect}>
            Reconnect
          </button>
        </span>
      </header>
      {snapshot?.pending.map((request) => (
        <Waiting key={request.id} request={request} task={task} onError={onError} />
      ))}
      <div class="columns">
        <article class="answer" aria-live="polite" aria-label="Answer">
          <Markdown text={view.current.answer} />
          {snapshot?.artifacts.map((artifact) => (
            <details key={artifact.artifactId} open>
              <summary>{artifact.name ?? artifact.artifactId}</summary>
              <pre>
                {artifact.parts
                  .map((part) => ('text' in part ? part.text : JSON.stringify(part, null, 2)))
                  .join('\n')}
              </pre>
            </details>
          ))}
        </article>
        <div class="lanes">
          <div class="heads" aria-hidden="true">
            <span>message lane</span>
            <span>control lane</span>
          </div>
          <Timeline view={view.current} seq={snapshot?.seq ?? 0} ended={over} onPick={setPicked} />
        </div>
      </div>
      <footer class="contract" aria-label="Contract">
        {view.current.rules.map((rule) => (
          <span key={rule.name} class={rule.state} title={rule.detail ?? ''}>
            {rule.state === 'kept' ? '✓' : rule.state === 'broken' ? '✗' : '…'} {rule.name}
          </span>
        ))}
      </footer>
      {picked !== undefined && (
        <dialog open class="raw" aria-label="Raw">
          <button type="button" onClick={() => setPicked(undefined)}>
            Close
          </button>
          <pre>{JSON.stringify(picked, null, 2)}</pre>
        </dialog>
      )}
    </section>
  );
}

function Waiting({
  request,
  task,
  onError,
}: {
  readonly request: InputRequest;
  readonly task: string;
  readonly onError: (error: unknown) => void;
}): VNode {
  const [text, setText] = useState(() =>
    request.data === undefined ? '' : JSON.stringify(request.data, null, 2),
  );
  const [sent, setSent] = useState(false);
  const question = request.kind === 'question';
  const content = (): unknown => {
    if (question) return text;
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new Error('The edited text is not JSON: mend it, or reject.');
    }
  };
  const say = async (action: 'accept' | 'decline'): Promise<void> => {
    try {
      setSent(true);
      const changed = action === 'accept' && text !== '' ? { content: content() } : {};
      await sendAnswer(task, { id: request.id, action, ...changed });
    } catch (error) {
      setSent(false);
      onError(error);
    }
  };
  return (
    <form class="waiting" aria-label="Waiting for you" onSubmit={(event) => event.preventDefault()}>
      <strong>Waiting for you</strong>
      <p>{request.message ?? `An ${request.kind} is needed.`}</p>
      <textarea
        aria-label="Your answer"
        rows={question ? 2 : 6}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <span class="buttons">
        <button type="button" class="primary" disabled={sent} onClick={() => void say('accept')}>
          {question ? 'Answer' : 'Approve'}
        </button>
        <button type="button" disabled={sent} onClick={() => void say('decline')}>
          {question ? 'Decline' : 'Reject'}
        </button>
      </span>
    </form>
  );
}
