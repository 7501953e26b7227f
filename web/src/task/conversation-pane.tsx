import type { RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import controls from '../ui/controls.module.css';
import { ArtifactCard } from './artifact-card.tsx';
import styles from './conversation-pane.module.css';
import { DataView } from '../ui/data-view.tsx';
import { Markdown } from '../ui/markdown.tsx';
import { nameOf } from '../ui/table-data.ts';
import type { TraceSpan } from '../state/span-board.ts';
import type { TimelineRow } from '../state/timeline-row.ts';
import type { TaskView } from '../state/task-view.ts';

const NEAR_PX = 40;
const LONG_CHARS = 200;
/** So many of the newest messages are in the document; a button shows more. */
const NEWEST = 100;

/**
 * The messages of the user and the text of the agent, then running tool calls, the output and the
 * artifacts.
 */
export function ConversationPane({ view }: { readonly view: TaskView }): VNode {
  const { talk, snapshot, sources, inFlight, status } = view;
  const running = snapshot?.running === true;
  const waiting = new Set(snapshot?.pending.map(({ callId }) => callId));
  const artifacts = snapshot?.artifacts ?? [];
  // An artifact is read from its top, so the pane stops following once there is one.
  const { ref, onScroll } = useFollow(running && artifacts.length === 0);
  const [limit, setLimit] = useState(NEWEST);
  const hidden = Math.max(0, talk.length - limit);
  const output = JSON.stringify(view.output);
  const shown = artifacts.some(({ parts }) =>
    parts.some((part) => 'data' in part && JSON.stringify(part.data) === output),
  );
  return (
    <article
      class={styles['pane']}
      data-part="conversation"
      aria-label="Conversation"
      aria-busy={running}
      tabIndex={0}
      ref={ref}
      onScroll={onScroll}
    >
      {hidden > 0 && (
        <button type="button" onClick={() => setLimit(limit + 10 * NEWEST)}>
          Show earlier messages ({hidden.toLocaleString()})
        </button>
      )}
      {talk
        .slice(hidden)
        .map((row, i) =>
          row.kind === 'user' ? (
            <UserMessage key={hidden + i} text={row.text} />
          ) : row.kind === 'question' || row.kind === 'answer' ? (
            <Exchange key={hidden + i} row={row} />
          ) : row.void || (output !== undefined && isJson(row.text, output)) ? null : (
            <Markdown key={hidden + i} text={row.text} />
          ),
        )}
      {status && running && waiting.size === 0 && <p class={controls['soft']}>{status}</p>}
      {inFlight
        .filter(({ id }) => !waiting.has(id)) // its question card says what it waits for
        .map((span) => (
          <RunningCall key={span.id} span={span} />
        ))}
      {view.output !== undefined && !shown && <DataView value={view.output} sources={sources} />}
      {artifacts.map((artifact) => (
        <ArtifactCard key={artifact.artifactId} artifact={artifact} sources={sources} />
      ))}
      {view.failure && (
        <p class={controls['error']} data-part="failure">
          {view.failure}
        </p>
      )}
    </article>
  );
}

/** A question of the agent, or the answer of a person with the name of that person. */
const Exchange = ({ row }: { readonly row: TimelineRow }): VNode => (
  <div class={styles['exchange']} data-kind={row.kind} data-part={row.kind}>
    <span class={styles['who']}>
      {row.kind === 'question' ? 'The agent asks' : `${row.by ?? 'You'} answered`}
    </span>
    {row.text}
  </div>
);

/** A message of the user. A long one is folded, so that the text of the agent stays in view. */
function UserMessage({ text }: { readonly text: string }): VNode {
  if (text.length <= LONG_CHARS) return <p class={styles['message']}>{text}</p>;
  const name = nameOf(parse(text));
  return (
    <details class={styles['message']} data-part="folded-message">
      <summary>{name ?? `${text.slice(0, LONG_CHARS).replaceAll(/\s+/g, ' ')} …`}</summary>
      {text}
    </details>
  );
}

/** Keeps the end in view while text arrives, unless the user has scrolled up. */
function useFollow(running: boolean): {
  readonly ref: RefObject<HTMLElement | null>;
  readonly onScroll: () => void;
} {
  const ref = useRef<HTMLElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    if (ref.current && running && follows.current) ref.current.scrollTop = ref.current.scrollHeight;
  });
  const onScroll = (): void => {
    const { scrollTop = 0, clientHeight = 0, scrollHeight = 0 } = ref.current ?? {};
    follows.current = scrollTop + clientHeight >= scrollHeight - NEAR_PX;
  };
  return { ref, onScroll };
}

/** A running tool call with its progress. */
function RunningCall({ span: { name, progress } }: { readonly span: TraceSpan }): VNode {
  const { message, done, total } = progress ?? {};
  return (
    <p class={styles['call']}>
      {done !== undefined && total ? (
        <progress aria-label={name} value={done} max={total} />
      ) : (
        <progress aria-label={name} />
      )}{' '}
      {name}
      {message && `: ${message}`}
    </p>
  );
}

/** Whether a text is the structured output as JSON; then only the output is shown. */
const isJson = (text: string, output: string): boolean => JSON.stringify(parse(text)) === output;

function parse(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // text that starts with a bracket
  }
}
