import { useReducer, useRef } from 'preact/hooks';
import { shownState, type ShownState } from './shown-state.ts';
import { TaskView } from './task-view.ts';
import { useClock } from './use-clock.ts';
import { useConnection, type Connection } from './use-connection.ts';
import { useReplay, type ReplayControl } from './use-replay.ts';

/** A task as the page shows it: live, or as a replay. */
export interface LiveTask extends ReplayControl {
  /** The view of the replay while there is one, else the live view. */
  readonly view: TaskView;
  readonly connection: Connection;
  /** The one state that the page shows. */
  readonly state: ShownState;
  /** The task goes on, and this page sees it. */
  readonly isLive: boolean;
  /** Returns the time on the clock of the server; in a replay, the time of its last entry. */
  readonly clock: () => number;
  readonly redraw: () => void;
}

/** Follows one task. Entries redraw the page at most once per animation frame. */
export function useTask(task: string, onError: (error: unknown) => void): LiveTask {
  const live = useRef(new TaskView());
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const redraw = (): void => draw(undefined);
  const connection = useConnection(task, { view: live.current, onChange: redraw, onError });
  const control = useReplay(task, { onChange: redraw, onError });
  const { replay } = control;
  useClock(!live.current.contract.over, redraw);
  const view = replay?.view ?? live.current;
  const isConnected = connection.state === 'live' || connection.state === 'ended';
  const serverNow = (): number => Date.now() + connection.clockOffsetMs;
  const lastSeenAt = connection.lastSeenAt ?? serverNow();
  const clock = (): number => {
    if (replay) return view.snapshot?.updatedAt ?? 0;
    // Without a connection nothing is known of the time since, so nothing grows on the screen.
    return isConnected ? serverNow() : lastSeenAt;
  };
  return {
    ...control,
    view,
    connection,
    state: shownState(
      view.snapshot,
      replay ? 'live' : connection.state,
      Math.max(0, serverNow() - lastSeenAt),
    ),
    isLive: !replay && connection.state === 'live' && !view.contract.over,
    clock,
    redraw,
  };
}
