import { describe } from 'vitest';
import { approving } from './contract/approving.ts';
import { delegating } from './contract/delegating.ts';
import { failing } from './contract/failing.ts';
import type { AdapterHarness } from './contract/harness.ts';
import { saying } from './contract/saying.ts';
import { Stage } from './contract/stage.ts';
import { stopping } from './contract/stopping.ts';

export type { Scene, SceneTool } from './contract/harness.ts';
export { only } from './contract/stage.ts';

/** One conformance suite for every adapter, each with its real framework and a scripted model. */
export function adapterContract(name: string, harness: AdapterHarness): void {
  const stage = new Stage(harness);
  describe(`${name} as an agent`, () => {
    for (const cases of [saying, failing, stopping, approving, delegating]) cases(stage);
  });
}
