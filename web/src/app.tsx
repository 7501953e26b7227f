import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { listAgents, listTasks, startTask, type AgentCardLite, type TaskRow } from './api.ts';
import { Task } from './task.tsx';

const POLL_MS = 1500;

export function App(): VNode {
  const [agents, setAgents] = useState<readonly AgentCardLite[]>([]);
  const [tasks, setTasks] = useState<readonly TaskRow[]>([]);
  const [open, setOpen] = useState(() => location.hash.slice(1));
  const [error, setError] = useState('');
  const fail = (reason: unknown): void =>
    setError(reason instanceof Error ? reason.message : String(reason));

  useEffect(() => {
    listAgents().then(setAgents, fail);
    const look = (): void => void listTasks().then(setTasks, fail);
    look();
    const timer = setInterval(look, POLL_MS);
    const moved = (): void => setOpen(location.hash.slice(1));
    addEventListener('hashchange', moved);
    return () => {
      clearInterval(timer);
      removeEventListener('hashchange', moved);
    };
  }, []);

  return (
    <div class="app">
      <aside>
        <h1>Duolane</h1>
        {agents.map((agent) => (
          <RunForm key={agent.name} agent={agent} onError={fail} />
        ))}
        <h2>Tasks</h2>
        <nav aria-label="Tasks">
          {tasks.length === 0 && <p>None yet. Run an agent above.</p>}
          {tasks.map((task) => (
            <a
              key={task.task}
              href={`#${task.task}`}
              class={task.task === open ? 'here' : ''}
              aria-current={task.task === open}
            >
              <span class={`state ${task.state}`}>{task.state}</span>
              <span class="title">{task.title || task.agent}</span>
              <span class="age">{age(Date.now() - task.createdAt)}</span>
            </a>
          ))}
        </nav>
      </aside>
      <main>
        {error && (
          <p class="error" role="alert">
            {error}{' '}
            <button type="button" onClick={() => setError('')}>
              Dismiss
            </button>
          </p>
        )}
        {open ? (
          <Task task={open} onError={fail} />
        ) : (
          <p class="empty">Run an agent, or open a task.</p>
        )}
      </main>
    </div>
  );
}

function RunForm({
  agent,
  onError,
}: {
  readonly agent: AgentCardLite;
  readonly onError: (error: unknown) => void;
}): VNode {
  const samples = samplesOf(agent);
  const [text, setText] = useState(samples[0]?.text ?? '');
  const run = (): void => {
    startTask(agent.name, text).then(({ task }) => {
      location.hash = task;
    }, onError);
  };
  return (
    <form
      class="run"
      onSubmit={(event) => {
        event.preventDefault();
        run();
      }}
    >
      <h2>{agent.name}</h2>
      <p>{agent.description}</p>
      {samples.length > 1 && (
        <select
          aria-label={`Samples for ${agent.name}`}
          onChange={(event) => setText(samples[event.currentTarget.selectedIndex]?.text ?? '')}
        >
          {samples.map(({ name }) => (
            <option>{name}</option>
          ))}
        </select>
      )}
      <textarea
        aria-label={`Input for ${agent.name}`}
        rows={4}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button type="submit" class="primary" disabled={text.trim() === ''}>
        Run
      </button>
    </form>
  );
}

/** The examples of a form's schema: strings as they are, records as JSON, named by their title. */
function samplesOf({
  form,
}: AgentCardLite): readonly { readonly name: string; readonly text: string }[] {
  const examples = Array.isArray(form?.['examples']) ? (form['examples'] as unknown[]) : [];
  return examples.map((example, i) => {
    const named =
      typeof example === 'object' && example !== null && 'name' in example
        ? String(example.name)
        : undefined;
    const text = typeof example === 'string' ? example : JSON.stringify(example, null, 2);
    return {
      name: named ?? (typeof example === 'string' ? example.slice(0, 60) : `Sample ${i + 1}`),
      text,
    };
  });
}

function age(ms: number): string {
  if (ms < 60_000) return `${Math.max(0, Math.round(ms / 1000))} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return `${Math.round(ms / 3_600_000)} h`;
}
