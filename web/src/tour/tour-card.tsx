import type { VNode } from 'preact';
import controls from '../ui/controls.module.css';
import styles from './tour-card.module.css';
import { tourResult, type TourState, type TourStep } from './tour-steps.ts';

const TEXTS: Readonly<Record<Exclude<TourStep, 'done'>, readonly [title: string, text: string]>> = {
  watch: [
    'Watch a run',
    'The AI Doctor reads a record. What it writes is in the message lane, its searches are in the control lane, each as long as it takes.',
  ],
  cut: ['Press Disconnect', 'Your browser loses the stream in the middle of the run.'],
  reconnect: [
    'The run goes on without you',
    'The page does not pretend: the state is unknown, and nothing grows. Press Reconnect to catch up.',
  ],
  cancel: [
    'Nothing is missing',
    'Every event was replayed once, in order; the cut is marked in the timeline. Now press Cancel: the run ends with one final event.',
  ],
  restart: ['Press Run again', 'The same message becomes a new task.'],
  finish: ['Let it finish', 'The page checks the contract with every event. See Contract above.'],
};

/** The text of the step `restart` if the run ended before the user had cut and canceled one. */
const TOO_LATE: readonly [title: string, text: string] = [
  'The run was faster',
  'It ended by itself. Press Run again: the same message becomes a new task.',
];

const STEPS: readonly TourStep[] = ['watch', 'cut', 'reconnect', 'cancel', 'restart', 'finish'];

/** The current step of the tour, and at its end the result in large type. */
export function TourCard({
  tour,
  onEnd,
}: {
  readonly tour: TourState;
  readonly onEnd: () => void;
}): VNode {
  const { step } = tour;
  if (step === 'done') {
    const { total, lost } = tourResult(tour);
    return (
      <aside
        class={styles['card']}
        data-result={lost === 0 ? 'good' : 'bad'}
        aria-label="Tour"
        data-part="tour"
      >
        <p class={styles['hero']} role="status">
          {lost} of {total} events lost
        </p>
        <p>
          Cut, reconnected, canceled and run again. The log has every event, and so has this page.
        </p>
        <button type="button" class={controls['primary']} onClick={onEnd}>
          Finish the tour
        </button>
      </aside>
    );
  }
  const isEarly = step === 'restart' && !(tour.wasCut && tour.wasCanceled);
  const [title, text] = isEarly ? TOO_LATE : TEXTS[step];
  return (
    <aside class={styles['card']} aria-label="Tour" data-part="tour" data-step={step}>
      <p class={styles['count']}>
        Step {STEPS.indexOf(step) + 1} of {STEPS.length}
      </p>
      <div role="status">
        <h2>{title}</h2>
        <p>{text}</p>
      </div>
      <button type="button" onClick={onEnd}>
        Leave the tour
      </button>
    </aside>
  );
}
