import type { RefObject, VNode } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { ArtifactCard } from './artifact-card.tsx';
import { DataView } from '../ui/data-view.tsx';
import { Markdown } from '../ui/markdown.tsx';
import { nameOf } from '../ui/table-data.ts';
import type { Bar, TaskView } from '../state/task-view.ts';

const NEAR_PX = 40;
const LONG_CHARS = 200;

/** What was asked and said, growing in place; then what is being done, the output and the artifacts. */
export function ConversationPane({ view }: { readonly view: TaskView }): VNode {
  const { talk, snapshot, sources, inFlight, status } = view;
  const running = snapshot?.running === true;
  const waits = new Set(snapshot?.pending.map(({ callId }) => callId));
  const artifacts = snapshot?.artifacts ?? [];
  // What was made is read from its top.
  const { ref, onScroll } = useFollow(running && artifacts.length === 0);
  const output = JSON.stringify(view.output);
  const shown = artifacts.some(({ parts }) =>
    parts.some((part) => 'data' in part && JSON.stringify(part.data) === output),
  );
  return (
    <article
      class="answer"
      aria-label="Answer"
      aria-busy={running}
      tabIndex={0}
      ref={ref}
      onScroll={onScroll}
    >
      {talk.map((row, i) =>
        row.kind === 'user' ? (
          <QuestionProps key={i} text={row.text} />
        ) : row.void || (output !== undefined && isJson(row.text, output)) ? null : (
          <Markdown key={i} text={row.text} />
        ),
      )}
      {status && running && waits.size === 0 && <p class="soft">{status}</p>}
      {inFlight
        .filter(({ id }) => !waits.has(id)) // its card says what it needs
        .map((bar) => (
          <Working key={bar.id} bar={bar} />
        ))}
      {view.output !== undefined && !shown && <DataView value={view.output} sources={sources} />}
      {artifacts.map((artifact) => (
        <ArtifactCard key={artifact.artifactId} artifact={artifact} sources={sources} />
      ))}
      {view.failure && <p class="error">{view.failure}</p>}
    </article>
  );
}

/** A record that was sent folds away; it is the answer that people came for. */
function QuestionProps({ text }: { readonly text: string }): VNode {
  if (text.length <= LONG_CHARS) return <p class="asked">{text}</p>;
  const name = nameOf(parse(text));
  return (
    <details class="asked">
      <summary>{name ?? `${text.slice(0, LONG_CHARS).replaceAll(/\s+/g, ' ')} …`}</summary>
      {text}
    </details>
  );
}

/** Stays at the end while something comes, unless the reader has scrolled up. */
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

function Working({ bar: { name, progress } }: { readonly bar: Bar }): VNode {
  const { message, done, total } = progress ?? {};
  return (
    <p class="working">
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

/** Whether a text is nothing but the output once more. */
const isJson = (text: string, output: string): boolean => JSON.stringify(parse(text)) === output;

function parse(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined; // words that begin like a record
  }
}
