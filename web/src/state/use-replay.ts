import { useEffect, useState } from 'preact/hooks';
import { fetchTrace } from '../api/requests.ts';
import { Replay, type Speed } from './replay.ts';

export interface ReplayControl {
  /** The replay that is shown; undefined while the page shows the live task. */
  readonly replay: Replay | undefined;
  readonly startReplay: (speed: Speed) => void;
  readonly stopReplay: () => void;
}

interface ReplayOptions {
  /** Called in an animation frame in which the replay moved. */
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

/** Loads the trace of a task and plays it, one tick per animation frame. */
export function useReplay(task: string, { onChange, onError }: ReplayOptions): ReplayControl {
  const [replay, setReplay] = useState<Replay>();

  useEffect(() => {
    if (!replay) return undefined;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const isMoving = !replay.isPaused && !replay.done;
      replay.tick(now - last);
      if (isMoving) onChange();
      last = now;
      frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [replay]);

  return {
    replay,
    startReplay(speed) {
      fetchTrace(task).then((entries) => setReplay(new Replay(entries, speed)), onError);
    },
    stopReplay: () => setReplay(undefined),
  };
}
