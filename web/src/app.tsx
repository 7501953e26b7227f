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

/** The page: a sign-in form where the server requires one, else agents and tasks. */
export function App(): VNode {
  const [session, setSession] = useState<SessionHead>();
  const look = (): void => {
    readSession().then(setSession, () => setTimeout(look, POLL_MS));
  };
  useEffect(look, []);
  if (!session) return <p class="app-empty">Connecting …</p>;
  const { wanted, owner, operator = false } = session;
  if (wanted && owner === undefined) return <SignIn onDone={look} />;
  const signOutAndLook = (): void => void signOut().finally(look);
  return (
    <Tasks onSignedOut={look} onSignOut={wanted ? signOutAndLook : undefined} operator={operator} />
  );
}

/** Shown while no task is open: what a new user can try. */
const Welcome = (): VNode => (
  <div class="app-empty">
    <p>Run an agent, or open a task.</p>
    <ul>
      <li>
        The message lane shows what the agent writes, the control lane what it requests from its
        host.
      </li>
      <li>Press Disconnect during a run, then Reconnect: no event is missing.</li>
      <li>Cancel a run: it ends with one final event, and the page shows how long that took.</li>
    </ul>
  </div>
);

/** The side panel with agents and tasks, and the open task, whose id is the hash of the address. */
function Tasks({
  onSignedOut,
  onSignOut,
  operator,
}: {
  readonly onSignedOut: () => void;
  /** Signs out; undefined on a server without sign-in. */
  readonly onSignOut: (() => void) | undefined;
  /** Whether the user may see the replicas, which concern all users. */
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
        else setOffline(true); // the server may be restarting: keep polling
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
    moved(); // the hash may have changed before the listener was added
    return () => {
      polling.stop();
      removeEventListener('hashchange', moved);
    };
  }, []);

  const agent = agents[chosen];
  return (
    <div class={open ? 'app app-open' : 'app'}>
      <nav class="app-side" aria-label="Agents and tasks">
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
        {onSignOut && (
          <button type="button" onClick={onSignOut}>
            Sign out
          </button>
        )}
      </nav>
      <main>
        {offline && (
          <p class="text-error" role="alert">
            Cannot reach the server. Retrying …
          </p>
        )}
        {error && (
          <p class="text-error" role="alert">
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
