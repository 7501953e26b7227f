import { useEffect, useRef, useState } from 'preact/hooks';
import { subscribeToTask, type TaskSubscription } from '../api/subscribe-to-task.ts';
import type { TaskView } from './task-view.ts';
import type { ConnectionCut, ConnectionState } from './types.ts';

export interface Connection {
  readonly state: ConnectionState;
  readonly cuts: readonly ConnectionCut[];
  /** When the server last sent something, on its own clock. */
  readonly lastSeenAt: number | undefined;
  /** How far the clock of the server is ahead of the clock of the browser. */
  readonly clockOffsetMs: number;
  readonly disconnect: () => void;
  readonly reconnect: () => void;
}

interface ConnectionOptions {
  /** Gets every entry. */
  readonly view: TaskView;
  /** Called at most once per animation frame after entries came, however many there were. */
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

/** A server that sends nothing for so many heartbeats is no longer known to be alive. */
const SILENT_BEATS = 2.5;
const CHECK_MS = 1000;

/** What the hook knows of its connection between two renderings. */
interface Link {
  subscription?: TaskSubscription;
  clockOffsetMs: number;
  lastSeenAt?: number;
  beatMs?: number;
  /** Entries up to `upTo` are the replay of the last reconnect; so many of them have come. */
  catchUp?: { readonly upTo: number; received: number };
}

/** Feeds the entries of a task to a view, and resumes behind the last one after a reconnect. */
export function useConnection(
  task: string,
  { view, onChange, onError }: ConnectionOptions,
): Connection {
  const link = useRef<Link>({ clockOffsetMs: 0 }).current;
  const [state, setState] = useState<ConnectionState>('opening');
  const [cuts, setCuts] = useState<readonly ConnectionCut[]>([]);
  const now = (): number => Date.now() + link.clockOffsetMs;

  const begin = (byUser: boolean): void =>
    setCuts((all) =>
      all.at(-1)?.to === undefined && all.length > 0 ? all : [...all, { from: now(), byUser }],
    );
  const change = (fields: Partial<ConnectionCut>): void =>
    setCuts((all) => (all.length === 0 ? all : all.with(-1, { ...all.at(-1)!, ...fields })));

  const connect = (): void => {
    let old = false;
    let frame = 0;
    link.subscription?.close();
    link.subscription = subscribeToTask(task, view.contract.seq, {
      head({ seq, at, over, beatMs }) {
        const { seq: known } = view.contract;
        old = over;
        link.clockOffsetMs = at - Date.now();
        if (beatMs !== undefined) link.beatMs = beatMs;
        if (known === 0) return;
        const replayed = seq - known;
        link.catchUp = { upTo: seq, received: 0 };
        change({ to: at, replayed, ...(replayed === 0 && { lost: 0 }) });
      },
      entry(entry) {
        view.feed(entry, old);
        const { catchUp } = link;
        if (catchUp && entry.seq <= catchUp.upTo) {
          catchUp.received++;
          if (entry.seq === catchUp.upTo)
            setCuts((all) =>
              all.map((cut, i) =>
                i === all.length - 1 && cut.replayed !== undefined
                  ? { ...cut, lost: cut.replayed - catchUp.received }
                  : cut,
              ),
            );
        }
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          onChange();
        });
      },
      alive() {
        link.lastSeenAt = now();
        setState((was) => (was === 'silent' ? 'live' : was));
      },
      connection(next) {
        if (next === 'ended') view.contract.close();
        if (next === 'lost' && view.contract.seq > 0) begin(false);
        setState(next);
      },
      failed: onError,
    });
  };

  useEffect(() => {
    connect();
    const timer = setInterval(() => {
      const { lastSeenAt, beatMs } = link;
      if (lastSeenAt === undefined || beatMs === undefined) return;
      if (now() - lastSeenAt > beatMs * SILENT_BEATS)
        setState((was) => (was === 'live' ? 'silent' : was));
    }, CHECK_MS);
    return () => {
      clearInterval(timer);
      link.subscription?.close();
    };
  }, [task]);

  return {
    state,
    cuts,
    lastSeenAt: link.lastSeenAt,
    clockOffsetMs: link.clockOffsetMs,
    disconnect() {
      link.subscription?.close();
      begin(true);
      setState('disconnected');
    },
    reconnect: connect,
  };
}
