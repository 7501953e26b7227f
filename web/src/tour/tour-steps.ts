import type { ConnectionCut } from '../state/types.ts';

/** What the tour knows of the task on the screen. */
export interface TourFacts {
  readonly task: string;
  readonly state: string;
  readonly connection: string;
  readonly cuts: readonly ConnectionCut[];
  /** How many entries the page has got, and how many should be there. */
  readonly received: number;
  readonly expected: number;
}

export type TourStep = 'watch' | 'cut' | 'reconnect' | 'cancel' | 'restart' | 'finish' | 'done';

/** Where the tour is, what the user has done, and what it has counted in the tasks so far. */
export interface TourState {
  readonly step: TourStep;
  /** The user has lost a connection and got it back. */
  readonly wasCut: boolean;
  readonly wasCanceled: boolean;
  readonly tasks: Readonly<Record<string, Pick<TourFacts, 'received' | 'expected'>>>;
}

export const TOUR_START: TourState = {
  step: 'watch',
  wasCut: false,
  wasCanceled: false,
  tasks: {},
};

/** So many entries are worth watching before the connection is cut. */
const WATCHED = 12;

const FINAL: ReadonlySet<string> = new Set(['completed', 'failed', 'canceled', 'rejected']);

/** The next state of the tour. Each step ends when the user has done what it asks for. */
export function nextTour(tour: TourState, facts: TourFacts): TourState {
  const { task, received, expected } = facts;
  const known = tour.tasks[task];
  const tasks =
    known?.received === received && known.expected === expected
      ? tour.tasks
      : { ...tour.tasks, [task]: { received, expected } };
  const step = nextStep(tour, facts);
  if (step === tour.step && tasks === tour.tasks) return tour;
  return {
    step,
    wasCut: tour.wasCut || (tour.step === 'reconnect' && step !== 'reconnect'),
    wasCanceled: tour.wasCanceled || (tour.step === 'cancel' && facts.state === 'canceled'),
    tasks,
  };
}

function nextStep({ step, wasCut, wasCanceled, tasks }: TourState, facts: TourFacts): TourStep {
  const isOver = FINAL.has(facts.state);
  switch (step) {
    case 'watch':
      if (isOver) return 'restart'; // too late for this run: the next one begins here again
      if (facts.received < WATCHED) return step;
      return wasCut ? 'cancel' : 'cut';
    case 'cut':
      if (facts.connection === 'disconnected') return 'reconnect';
      return isOver ? 'restart' : step;
    case 'reconnect':
      if (facts.cuts.at(-1)?.lost === undefined) return step;
      return isOver ? 'restart' : 'cancel';
    case 'cancel':
      return isOver ? 'restart' : step;
    case 'restart':
      if (facts.task in tasks) return step;
      return wasCut && wasCanceled ? 'finish' : 'watch';
    case 'finish':
      return isOver ? 'done' : step;
    case 'done':
      return step;
  }
}

/** How many events the log had in all tasks of the tour, and how many did not come. */
export function tourResult({ tasks }: TourState): {
  readonly total: number;
  readonly lost: number;
} {
  const all = Object.values(tasks);
  const total = all.reduce((sum, { expected }) => sum + expected, 0);
  return { total, lost: total - all.reduce((sum, { received }) => sum + received, 0) };
}
