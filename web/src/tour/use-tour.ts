import { useEffect, useState } from 'preact/hooks';
import { fetchRuns, startTask, type AgentCardLite } from '../api/requests.ts';
import type { LiveTask } from '../state/use-task.ts';
import { nextTour, TOUR_START, type TourState } from './tour-steps.ts';

export interface Tour {
  readonly state: TourState | undefined;
  /** Starts the tour; undefined on a server without an agent for it. */
  readonly start: (() => void) | undefined;
  readonly end: () => void;
  /** Gets the task on the screen after each drawing. */
  readonly follow: (task: string, live: LiveTask) => void;
}

const KEY = 'duolane-tour';

/** The tour with the agent that a server offers for it. It begins by itself on a first visit. */
export function useTour(agents: readonly AgentCardLite[], onError: (error: unknown) => void): Tour {
  const [state, setState] = useState<TourState>();
  const agent = agents.find(({ form }) => form?.['x-tour'] === true);
  const start = async (card: AgentCardLite): Promise<void> => {
    try {
      const examples: unknown = card.form?.['examples'];
      const [sample]: readonly unknown[] = Array.isArray(examples) ? examples : [];
      setState(TOUR_START);
      location.hash = (
        await startTask(card.name, typeof sample === 'string' ? { text: sample } : { data: sample })
      ).task;
    } catch (error) {
      setState(undefined);
      onError(error);
    }
  };
  useEffect(() => {
    if (!agent || location.hash.length > 1 || wasSeen()) return;
    fetchRuns({}, undefined, 1).then(({ tasks }) => {
      if (tasks.length === 0) void start(agent);
    }, onError);
  }, [agent]);
  return {
    state,
    start: agent && (() => void start(agent)),
    end() {
      remember();
      setState(undefined);
    },
    follow(task, live) {
      const { contract } = live.view;
      if (live.replay) return;
      setState(
        (was) =>
          was &&
          nextTour(was, {
            task,
            state: live.state.key,
            connection: live.connection.state,
            cuts: live.connection.cuts,
            received: contract.count,
            expected: contract.seq,
          }),
      );
    },
  };
}

function wasSeen(): boolean {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true; // the user has blocked storage: the tour would begin at every visit
  }
}

function remember(): void {
  try {
    localStorage.setItem(KEY, 'seen');
  } catch {
    // The user has blocked storage; then the tour does not begin by itself either.
  }
}
