import type { VNode } from 'preact';
import { sendAnswer, type TaskRow } from '../api/requests.ts';
import { ageText } from '../state/format-time.ts';
import { QuestionCard } from '../task/question-card.tsx';
import styles from './inbox-page.module.css';

/** Everything that waits for a person, across agents, oldest first. */
export function InboxPage({
  waiting,
  onError,
}: {
  readonly waiting: readonly TaskRow[];
  readonly onError: (error: unknown) => void;
}): VNode {
  const oldestFirst = waiting.toSorted((a, b) => a.updatedAt - b.updatedAt);
  return (
    <section class={styles['page']} aria-label="Inbox" data-part="inbox">
      <h1 class={styles['title']}>Inbox</h1>
      {oldestFirst.length === 0 && (
        <div class={styles['empty']}>
          <p>Nothing waits for you.</p>
          <p>
            When an agent asks for an approval or has a question, it appears here, and the title of
            this tab counts it. A run that waits holds no process, and survives a restart.
          </p>
        </div>
      )}
      {oldestFirst.map((row) => (
        <article key={row.task} class={styles['item']}>
          <p class={styles['from']}>
            <b>{row.agent}</b> <a href={`#${row.task}`}>{row.title || row.task}</a>
            <span>{ageText(Date.now() - row.updatedAt)}</span>
          </p>
          {row.pending.map((request) => (
            <QuestionCard
              key={request.id}
              request={request}
              send={(given) => sendAnswer(row.task, given)}
              onError={onError}
            />
          ))}
        </article>
      ))}
    </section>
  );
}
