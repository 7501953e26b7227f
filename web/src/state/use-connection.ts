import { useEffect, useRef, useState } from 'preact/hooks';
import { subscribeToTask, type TaskSubscription } from '../api.ts';
import type { TaskView } from './task-view.ts';

/** The state of the stream that the page reads a task from. */
export type ConnectionState =
  | 'opening'
  | 'live'
  | 'lost'
  | 'failed'
  | 'disconnected'
  | 'ended'
  | 'gone';

export interface Connection {
  readonly state: ConnectionState;
  /** How many entries the last reconnect caught up with. */
  readonly replayed: number | undefined;
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

/** Feeds the entries of a task to a view, and resumes behind the last one after a reconnect. */
export function useConnection(
  task: string,
  { view, onChange, onError }: ConnectionOptions,
): Connection {
  const subscription = useRef<TaskSubscription | undefined>(undefined);
  const clockOffsetMs = useRef(0);
  const [state, setState] = useState<ConnectionState>('opening');
  const [replayed, setReplayed] = useState<number>();

  const connect = (): void => {
    let old = false;
    let frame = 0;
    subscription.current?.close();
    subscription.current = subscribeToTask(task, view.contract.seq, {
      head({ seq, at, over }) {
        const { seq: known } = view.contract;
        if (known > 0) setReplayed(seq - known);
        old = over;
        clockOffsetMs.current = at - Date.now();
      },
      entry(entry) {
        view.feed(entry, old);
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          onChange();
        });
      },
      connection(next) {
        if (next === 'ended') view.contract.close();
        setState(next);
      },
      failed: onError,
    });
  };

  useEffect(() => {
    connect();
    return () => subscription.current?.close();
  }, [task]);

  return {
    state,
    replayed,
    clockOffsetMs: clockOffsetMs.current,
    disconnect() {
      subscription.current?.close();
      setState('disconnected');
    },
    reconnect: connect,
  };
}
