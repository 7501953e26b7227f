import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { listAgents, listTasks, type AgentCardLite, type TaskRow } from './api.ts';
import { RunForm } from './run-form.tsx';
import { TaskList } from './task-list.tsx';
import { Task } from './task.tsx';

const POLL_MS = 1000;

export function App(): VNode {
  const [agents, setAgents] = useState<readonly AgentCardLite[]>([]);
  const [tasks, setTasks] = useState<readonly TaskRow[]>([]);
  const [chosen, setChosen] = useState(0);
  const [open, setOpen] = useState(() => location.hash.slice(1));
  const [offline, setOffline] = useState(false);
  const [error, setError] = useState('');
  const fail = (reason: unknown): void =>
    setError(reason instanceof Error ? reason.message : String(reason));

  useEffect(() => {
    const look = async (): Promise<void> => {
      try {
        setTasks(await listTasks());
        setOffline(false);
      } catch {
        setOffline(true); // the server may be on its way back: go on asking
      }
    };
    listAgents().then(setAgents, fail);
    const timer = setInterval(() => document.hidden || void look(), POLL_MS);
    const moved = (): void => {
      setOpen(location.hash.slice(1));
      setError('');
      void look();
    };
    addEventListener('hashchange', moved);
    moved(); // it may have changed before we listened
    return () => {
      clearInterval(timer);
      removeEventListener('hashchange', moved);
    };
  }, []);

  const agent = agents[chosen];
  return (
    <div class={open ? 'app open' : 'app'}>
      <nav class="side" aria-label="Agents and tasks">
        <h1>Duolane</h1>
        {agents.length > 1 && (
          <select
            aria-label="Agent"
            onChange={(event) => setChosen(event.currentTarget.selectedIndex)}
          >
            {agents.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        {agent && <RunForm key={agent.name} agent={agent} />}
        <h2>Tasks</h2>
        <TaskList tasks={tasks} open={open} />
      </nav>
      <main>
        {offline && (
          <p class="error" role="alert">
            The server does not answer. Trying again …
          </p>
        )}
        {error && (
          <p class="error" role="alert">
            {error}{' '}
            <button type="button" onClick={() => setError('')}>
              Dismiss
            </button>
          </p>
        )}
        {open ? (
          <Task key={open} task={open} onError={fail} />
        ) : (
          <p class="empty">Run an agent, or open a task.</p>
        )}
      </main>
    </div>
  );
}
