import type { VNode } from 'preact';
import { duration } from '../state/format-time.ts';
import { SPEEDS, type Replay } from '../state/replay.ts';
import styles from './replay-bar.module.css';

/** Moves the complete page to any moment of a recorded run. */
export function ReplayBar({
  replay,
  onChange,
}: {
  readonly replay: Replay;
  readonly onChange: () => void;
}): VNode {
  const { positionMs, lengthMs, done, isPaused, shown, count } = replay;
  return (
    <div class={styles['bar']} role="group" aria-label="Replay" data-part="replay-bar">
      <button
        type="button"
        onClick={() => {
          if (done) replay.seek(0);
          replay.isPaused = done ? false : !isPaused;
          onChange();
        }}
      >
        {done ? 'Play again' : isPaused ? 'Play' : 'Pause'}
      </button>
      <input
        type="range"
        class={styles['range']}
        aria-label="Moment of the run"
        aria-valuetext={`${duration(positionMs)} of ${duration(lengthMs)}`}
        min={0}
        max={Math.max(1, Math.ceil(lengthMs))}
        value={Math.round(positionMs)}
        onInput={(event) => {
          replay.isPaused = true;
          replay.seek(Number(event.currentTarget.value));
          onChange();
        }}
      />
      <span class={styles['facts']}>
        {duration(positionMs)} of {duration(lengthMs)} · event {shown} of {count}
      </span>
      <select
        aria-label="Replay speed"
        value={replay.speed}
        onChange={(event) => {
          replay.speed = SPEEDS[event.currentTarget.selectedIndex] ?? 1;
          onChange();
        }}
      >
        {SPEEDS.map((speed) => (
          <option key={speed} value={speed}>
            {speed}x
          </option>
        ))}
      </select>
    </div>
  );
}
