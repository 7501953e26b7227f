import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { JsonObject } from '../../../src/json.ts';
import controls from '../ui/controls.module.css';
import { hostApp, readApp, type AppDocument, type AppWish } from './app-host.ts';
import type { ToolConnection } from './tool-connection.ts';
import styles from './tools-page.module.css';

interface AppViewProps {
  readonly connection: ToolConnection;
  readonly uri: string;
  readonly tool: JsonObject;
  readonly args: JsonObject;
  readonly result: Promise<JsonObject>;
  /** Gets the log lines of the app. */
  readonly onMessage: (message: JsonObject) => void;
  /** Calls a tool for the app. */
  readonly call: (name: string, args: JsonObject) => Promise<JsonObject>;
}

interface OpenWish extends AppWish {
  readonly number: number;
  readonly decide: (isAllowed: boolean) => void;
}

/** The app of a tool server, in a frame, for the result of one call. */
export function AppView(props: AppViewProps): VNode {
  const { connection, uri } = props;
  const [app, setApp] = useState<AppDocument>();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    const scope = new AbortController();
    readApp(connection, uri, scope.signal).then(setApp, (error: unknown) => {
      if (!scope.signal.aborted) setProblem(error instanceof Error ? error.message : String(error));
    });
    return () => scope.abort();
  }, [connection, uri]);
  return (
    <section class={styles['app']} aria-label="App" data-part="app">
      {problem && (
        <p class={controls['error']} role="alert">
          {problem}
        </p>
      )}
      {app && !problem && <AppFrame {...props} app={app} onEnd={setProblem} />}
    </section>
  );
}

function AppFrame({
  app,
  onEnd,
  ...props
}: AppViewProps & {
  readonly app: AppDocument;
  readonly onEnd: (reason: string) => void;
}): VNode {
  const frame = useRef<HTMLIFrameElement>(null);
  const stop = useRef<() => Promise<void>>(undefined);
  const allowsAll = useRef(false);
  const count = useRef(0);
  const [wishes, setWishes] = useState<readonly OpenWish[]>([]);
  const allow = (wish: AppWish): Promise<boolean> => {
    // A link is opened by a click only, so it is asked each time.
    if (allowsAll.current && wish.link === undefined) return Promise.resolve(true);
    return new Promise((decide) => {
      const number = (count.current += 1);
      setWishes((open) => [...open, { ...wish, number, decide }]);
    });
  };
  const decide = (wish: OpenWish, isAllowed: boolean): void => {
    setWishes((open) => open.filter((each) => each !== wish));
    wish.decide(isAllowed);
  };
  useEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    stop.current = hostApp(element, {
      ...props,
      app,
      allow,
      onHeight: (height) => (element.height = String(height)),
      onEnd,
    });
    return () => void stop.current?.();
  }, [app]);
  const { title, name } = props.tool;
  return (
    <>
      <p class={styles['appHead']}>
        <span>
          App of <b>{String(title ?? name)}</b>
          {app.reaches.length > 0 && <>, which may connect to {app.reaches.join(', ')}</>}
        </span>
        <button
          type="button"
          onClick={() => void stop.current?.().then(() => onEnd('You closed the app.'))}
        >
          Close the app
        </button>
      </p>
      {wishes.map((wish) => (
        <Wish
          key={wish.number}
          wish={wish}
          onDecide={(isAllowed) => decide(wish, isAllowed)}
          onAll={() => {
            allowsAll.current = true;
            decide(wish, true);
          }}
        />
      ))}
      <iframe
        ref={frame}
        class={styles['frame']}
        title={`App of ${String(title ?? name)}`}
        sandbox="allow-scripts allow-forms"
        referrerpolicy="no-referrer"
        data-part="app-frame"
      />
    </>
  );
}

/** What an app wants to do; it waits until the user decides. */
function Wish({
  wish: { what, data, link },
  onDecide,
  onAll,
}: {
  readonly wish: AppWish;
  readonly onDecide: (isAllowed: boolean) => void;
  readonly onAll: () => void;
}): VNode {
  return (
    <div class={styles['wish']} role="group" aria-label="Request of the app" data-part="app-wish">
      <p>The app wants to {what}.</p>
      {link !== undefined && <pre>{link}</pre>}
      {data !== undefined && <pre>{JSON.stringify(data, null, 2)}</pre>}
      <span class={controls['group']}>
        {link === undefined ? (
          <>
            <button type="button" class={controls['primary']} onClick={() => onDecide(true)}>
              Allow
            </button>
            <button type="button" onClick={onAll}>
              Allow everything of this app
            </button>
          </>
        ) : (
          <a
            class={controls['linkButton']}
            href={link}
            target="_blank"
            rel="noopener noreferrer"
            onClick={() => onDecide(true)}
          >
            Open link
          </a>
        )}
        <button type="button" onClick={() => onDecide(false)}>
          Refuse
        </button>
      </span>
    </div>
  );
}
