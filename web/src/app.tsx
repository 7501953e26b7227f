import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  listAgents,
  fetchTasks,
  readSession,
  SignInRequired,
  signOut,
  type AgentCardLite,
  type SessionHead,
  type TaskRow,
} from './api.ts';
import { pollInterval } from './state/poll.ts';
import { Replicas } from './side/replica-list.tsx';
import { RunForm } from './side/run-form.tsx';
import { SignIn } from './side/sign-in.tsx';
import { TaskList } from './side/task-list.tsx';
import { Task } from './task/task-page.tsx';

const POLL_MS = 1000;

export function App(): VNode {
  const [session, setSession] = useState<SessionHead>();
  const look = (): void => {
    readSession().then(setSession, () => setTimeout(look, POLL_MS));
  };
  useEffect(look, []);
  if (!session) return <p class="empty">Connecting …</p>;
  const { wanted, owner, operator = false } = session;
  if (wanted && owner === undefined) return <SignIn onDone={look} />;
  const leave = (): void => void signOut().finally(look);
  return <Tasks onSignedOut={look} leave={wanted ? leave : undefined} operator={operator} />;
}

/** What a newcomer can do here. */
const Welcome = (): VNode => (
  <div class="empty">
    <p>Run an agent, or open a task.</p>
    <ul>
      <li>The message lane is what the agent says, the control lane what it asks of its host.</li>
      <li>Cut the connection in mid-run, then reconnect: not one event is missing.</li>
      <li>Cancel another run: it ends with one final event, and you see how long that took.</li>
    </ul>
  </div>
);

function Tasks({
  onSignedOut,
  leave,
  operator,
}: {
  readonly onSignedOut: () => void;
  /** How to sign out, where people sign in. */
  readonly leave: (() => void) | undefined;
  /** Whether to show what concerns all callers. */
  readonly operator: boolean;
}): VNode {
  const [agents, setAgents] = useState<readonly AgentCardLite[]>([]);
  const [tasks, setTasks] = useState<readonly TaskRow[]>([]);
  const [chosen, setChosen] = useState(0);
  const [open, setOpen] = useState(() => location.hash.slice(1));
  const [offline, setOffline] = useState(false);
  const [error, setError] = useState('');
  const fail = (reason: unknown): void => {
    if (reason instanceof SignInRequired) onSignedOut();
    else setError(reason instanceof Error ? reason.message : String(reason));
  };

  useEffect(() => {
    const look = async (): Promise<void> => {
      try {
        setTasks(await fetchTasks());
        setOffline(false);
      } catch (reason) {
        if (reason instanceof SignInRequired) onSignedOut();
        else setOffline(true); // the server may be on its way back: go on asking
      }
    };
    listAgents().then(setAgents, fail);
    const polling = pollInterval(look, POLL_MS);
    const moved = (): void => {
      setOpen(location.hash.slice(1));
      setError('');
      polling.now();
    };
    addEventListener('hashchange', moved);
    moved(); // it may have changed before we listened
    return () => {
      polling.stop();
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
        {operator && <Replicas />}
        {leave && (
          <button type="button" onClick={leave}>
            Sign out
          </button>
        )}
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
        {open ? <Task key={open} task={open} onError={fail} /> : <Welcome />}
      </main>
    </div>
  );
}
