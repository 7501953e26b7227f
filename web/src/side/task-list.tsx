import type { VNode } from 'preact';
import type { TaskRow } from '../api.ts';
import { duration } from '../state/task-view.ts';

/** The tasks that the user may see; the open one is marked. */
export function TaskList({
  tasks,
  open,
}: {
  readonly tasks: readonly TaskRow[];
  readonly open: string;
}): VNode {
  if (tasks.length === 0) return <p class="text-soft">No tasks yet. Run an agent above.</p>;
  return (
    <ul class="task-list">
      {tasks.map((task) => (
        <li key={task.task}>
          <a href={`#${task.task}`} aria-current={task.task === open ? 'page' : undefined}>
            <span class="task-list-title">{task.title || task.agent}</span>
            <State state={task.state} />
            <span class="task-list-facts">{factsOf(task).join(' · ')}</span>
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The state of a task as a colored label. */
export const State = ({ state }: { readonly state: string }): VNode => (
  <span class={`task-state task-state-${state}`}>
    {state === 'input-required' ? 'waiting for you' : state}
  </span>
);

function factsOf({ agent, createdAt, firstTextAt, usage }: TaskRow): readonly string[] {
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return [
    agent,
    age(Date.now() - createdAt),
    ...(firstTextAt === undefined ? [] : [`first token ${duration(firstTextAt - createdAt)}`]),
    ...(tokens > 0 ? [`${tokens.toLocaleString()} tokens`] : []),
  ];
}

/** Rounds young tasks: the list is drawn every second, and changing milliseconds would flicker. */
function age(ms: number): string {
  return ms < 10_000 ? 'just now' : `${duration(ms)} ago`;
}
