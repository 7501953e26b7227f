import { useReducer, useRef } from 'preact/hooks';
import { TaskView } from './task-view.ts';
import { useClock } from './use-clock.ts';
import { useConnection, type Connection } from './use-connection.ts';
import { useReplay, type ReplayControl } from './use-replay.ts';

/** A task as the page shows it: live, or as a replay. */
export interface LiveTask extends ReplayControl {
  /** The view of the replay while there is one, else the live view. */
  readonly view: TaskView;
  readonly connection: Connection;
  /** The time on the clock of the server. */
  readonly now: number;
}

/** Follows one task. Entries redraw the page at most once per animation frame. */
export function useTask(task: string, onError: (error: unknown) => void): LiveTask {
  const view = useRef(new TaskView());
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const onChange = (): void => draw(undefined);
  const connection = useConnection(task, { view: view.current, onChange, onError });
  const control = useReplay(task, { onChange, onError });
  useClock(!view.current.contract.over, onChange);
  return {
    ...control,
    view: control.replay?.view ?? view.current,
    connection,
    now: Date.now() + connection.clockOffsetMs,
  };
}
