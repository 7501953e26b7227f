import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  readServer,
  readSession,
  SignInRequired,
  signOut,
  type ServerHead,
  type SessionHead,
} from './api/requests.ts';
import styles from './app.module.css';
import { InboxPage } from './inbox/inbox-page.tsx';
import { useInbox } from './inbox/use-inbox.ts';
import { RunsPage } from './runs/runs-page.tsx';
import { Changes, useTaskFeed } from './runs/use-changes.ts';
import { parseRoute } from './shell/route.ts';
import { SignIn } from './shell/sign-in.tsx';
import { TopBar } from './shell/top-bar.tsx';
import { Task } from './task/task-page.tsx';
import { ToolsPage } from './tools/tools-page.tsx';
import { TourCard } from './tour/tour-card.tsx';
import { useTour } from './tour/use-tour.ts';
import controls from './ui/controls.module.css';

const RETRY_MS = 1000;

/** The page: a sign-in form where the server requires one, else runs, inbox and tasks. */
export function App(): VNode {
  const [session, setSession] = useState<SessionHead>();
  const look = (): void => {
    readSession().then(setSession, () => setTimeout(look, RETRY_MS));
  };
  useEffect(look, []);
  if (!session) return <p class={styles['connecting']}>Connecting …</p>;
  const { wanted, owner, operator = false } = session;
  if (wanted && owner === undefined) return <SignIn onDone={look} />;
  const signOutAndLook = (): void => void signOut().finally(look);
  return (
    <SignedIn
      onSignedOut={look}
      onSignOut={wanted ? signOutAndLook : undefined}
      operator={operator}
    />
  );
}

interface SignedInProps {
  readonly onSignedOut: () => void;
  /** Signs out; undefined on a server without sign-in. */
  readonly onSignOut: (() => void) | undefined;
  /** Whether the user may see the replicas, which concern all users. */
  readonly operator: boolean;
}

function SignedIn(props: SignedInProps): VNode {
  const feed = useTaskFeed();
  return (
    <Changes.Provider value={feed}>
      <Views {...props} isOnline={feed.isOnline} />
    </Changes.Provider>
  );
}

/** The views, chosen by the hash of the address. */
function Views({
  onSignedOut,
  onSignOut,
  operator,
  isOnline,
}: SignedInProps & { readonly isOnline: boolean }): VNode {
  const [{ agents, tools }, setServer] = useState<ServerHead>({ agents: [], tools: [] });
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  const [error, setError] = useState('');
  const fail = (reason: unknown): void => {
    if (reason instanceof SignInRequired) onSignedOut();
    // The top bar reports a server that cannot be reached; a second message would repeat it.
    else if (!(reason instanceof Error && reason.cause !== undefined)) setError(textOf(reason));
  };
  const waiting = useInbox(fail);
  const tour = useTour(agents, fail);

  useEffect(() => {
    readServer().then(setServer, fail);
    const moved = (): void => {
      setRoute(parseRoute(location.hash));
      setError('');
    };
    addEventListener('hashchange', moved);
    moved(); // the hash may have changed before the listener was added
    return () => removeEventListener('hashchange', moved);
  }, []);

  return (
    <div class={styles['app']}>
      <TopBar
        view={route.view}
        waiting={waiting.length}
        isOnline={isOnline}
        hasTools={tools.length > 0}
        onSignOut={onSignOut}
      />
      {error && (
        <p class={`${controls['error']} ${styles['error']}`} role="alert" data-part="page-error">
          {error}{' '}
          <button type="button" onClick={() => setError('')}>
            Dismiss
          </button>
        </p>
      )}
      <main class={styles['main']} id="main" tabIndex={-1}>
        {route.view === 'task' ? (
          <Task
            key={route.task}
            task={route.task}
            entry={route.entry}
            onError={fail}
            onLive={(live) => tour.follow(route.task, live)}
          />
        ) : route.view === 'inbox' ? (
          <InboxPage waiting={waiting} onError={fail} />
        ) : route.view === 'tools' ? (
          tools.length > 0 ? (
            <ToolsPage servers={tools} onError={fail} />
          ) : (
            agents.length > 0 && (
              <p class={styles['empty']}>
                This server shows no tools: no agent has the option tools, or page.tools is false.
              </p>
            )
          )
        ) : (
          <RunsPage agents={agents} operator={operator} onError={fail} onTour={tour.start} />
        )}
      </main>
      {tour.state && route.view === 'task' && <TourCard tour={tour.state} onEnd={tour.end} />}
    </div>
  );
}

const textOf = (reason: unknown): string =>
  reason instanceof Error ? reason.message : String(reason);
