import { useEffect, useReducer, useRef, useState } from 'preact/hooks';
import { fetchTrace, subscribeToTask, type TaskSubscription } from '../api.ts';
import { Replay, type Speed } from './replay.ts';
import { TaskView } from './task-view.ts';

export type ConnectionState = 'opening' | 'live' | 'lost' | 'failed' | 'cut' | 'ended' | 'gone';

export interface LiveTask {
  readonly view: TaskView;
  readonly line: ConnectionState;
  /** How many entries the last reconnect caught up with. */
  readonly replayed: number | undefined;
  /** The server's clock, ticking while the task goes on. */
  readonly now: number;
  readonly replay: Replay | undefined;
  readonly cut: () => void;
  readonly reconnect: () => void;
  readonly startReplay: (speed: Speed) => void;
  readonly stopReplay: () => void;
}

/** One task, followed live; redrawn at most once a frame, whatever comes. */
export function useTask(task: string, onError: (error: unknown) => void): LiveTask {
  const view = useRef(new TaskView());
  const subscription = useRef<TaskSubscription | undefined>(undefined);
  const skew = useRef(0);
  const [line, setLine] = useState<ConnectionState>('opening');
  const [replayed, setReplayed] = useState<number>();
  const [replay, setReplay] = useState<Replay>();
  const [, draw] = useReducer((n: number) => n + 1, 0);

  const connect = (): void => {
    let old = false;
    let frame = 0;
    subscription.current?.close();
    subscription.current = subscribeToTask(task, view.current.contract.seq, {
      head({ seq, at, over }) {
        const { seq: known } = view.current.contract;
        if (known > 0) setReplayed(seq - known);
        old = over;
        skew.current = at - Date.now();
      },
      entry(entry) {
        view.current.feed(entry, old);
        frame ||= requestAnimationFrame(() => {
          frame = 0;
          draw(undefined);
        });
      },
      line(state) {
        if (state === 'ended') view.current.contract.close();
        setLine(state);
      },
      failed: onError,
    });
  };

  useEffect(() => {
    connect();
    return () => subscription.current?.close();
  }, [task]);

  const { over } = view.current.contract;
  useEffect(() => {
    if (over) return undefined;
    const timer = setInterval(() => draw(undefined), 1000);
    return () => clearInterval(timer);
  }, [over]);

  useEffect(() => {
    if (!replay) return undefined;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      if (replay.tick(now - last)) draw(undefined);
      last = now;
      if (!replay.done) frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [replay]);

  return {
    view: replay?.view ?? view.current,
    line,
    replayed,
    now: Date.now() + skew.current,
    replay,
    cut() {
      subscription.current?.close();
      setLine('cut');
    },
    reconnect: connect,
    startReplay(speed) {
      fetchTrace(task).then((entries) => setReplay(new Replay(entries, speed)), onError);
    },
    stopReplay: () => setReplay(undefined),
  };
}
