import { afterEach, beforeEach, describe } from 'vitest';
import type { RunnerOptions } from '../../src/task/index.ts';
import type { Store } from '../../src/task/store/index.ts';
import { canceledRuns } from './task-runs/cancels.ts';
import { mortalRuns } from './task-runs/crashes.ts';
import { askingRuns } from './task-runs/questions.ts';
import type { Place } from './task-runs/fixture.ts';
import { steppedRuns } from './task-runs/steps.ts';
import { streamedRuns } from './task-runs/turns.ts';
import { World } from '../task/replica-world.ts';

/** What runners do on a log, on one replica and on several, whatever dies. */
export function taskRunsContract(
  name: string,
  open: () => Promise<Store>,
  defaults: Pick<RunnerOptions, 'suspendAfterMs'> = {},
): void {
  describe(`task runs: ${name}`, () => {
    let world: World;
    beforeEach(async () => void (world = new World(await open())));
    afterEach(() => world[Symbol.asyncDispose]());

    const place: Place = {
      replica: (options) => world.replica(options),
      start: (replica, agents, options) => replica.runner(agents, { ...defaults, ...options }),
    };
    streamedRuns(place);
    canceledRuns(place);
    mortalRuns(place);
    askingRuns(place);
    steppedRuns(place);
  });
}
