import type { RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { ArtifactCard } from './artifact-card.tsx';
import { DataView } from '../ui/data-view.tsx';
import { Markdown } from '../ui/markdown.tsx';
import { nameOf } from '../ui/table-data.ts';
import type { Bar, TaskView } from '../state/task-view.ts';

const NEAR_PX = 40;
const LONG_CHARS = 200;

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
  const output = JSON.stringify(view.output);
  const shown = artifacts.some(({ parts }) =>
    parts.some((part) => 'data' in part && JSON.stringify(part.data) === output),
  );
  return (
    <article
      class="conversation"
      aria-label="Conversation"
      aria-busy={running}
      tabIndex={0}
      ref={ref}
      onScroll={onScroll}
    >
      {talk.map((row, i) =>
        row.kind === 'user' ? (
          <UserMessage key={i} text={row.text} />
        ) : row.void || (output !== undefined && isJson(row.text, output)) ? null : (
          <Markdown key={i} text={row.text} />
        ),
      )}
      {status && running && waiting.size === 0 && <p class="text-soft">{status}</p>}
      {inFlight
        .filter(({ id }) => !waiting.has(id)) // its question card says what it waits for
        .map((bar) => (
          <RunningCall key={bar.id} bar={bar} />
        ))}
      {view.output !== undefined && !shown && <DataView value={view.output} sources={sources} />}
      {artifacts.map((artifact) => (
        <ArtifactCard key={artifact.artifactId} artifact={artifact} sources={sources} />
      ))}
      {view.failure && <p class="text-error">{view.failure}</p>}
    </article>
  );
}

/** A message of the user. A long one is folded, so that the text of the agent stays in view. */
function UserMessage({ text }: { readonly text: string }): VNode {
  if (text.length <= LONG_CHARS) return <p class="conversation-question">{text}</p>;
  const name = nameOf(parse(text));
  return (
    <details class="conversation-question">
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
function RunningCall({ bar: { name, progress } }: { readonly bar: Bar }): VNode {
  const { message, done, total } = progress ?? {};
  return (
    <p class="conversation-call">
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
