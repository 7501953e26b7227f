import { writeFileSync } from 'node:fs';
import { TestRunner } from 'vitest';
import type { RunnerTestCase } from 'vitest';

/** How long a test with a mutant may take: a mutant that hangs is found, too. */
const LIMIT_MS = 2000;
/** How long a test without a mutant may take; a mutant before it may have left something behind. */
const FIRST_MS = 30_000;

/** The mutant that is active, and the ones that a test reaches. */
class ActiveMutant {
  active: number | undefined;
  reached = new Set<number>();
  readonly allReached = new Set<number>();
  readonly killed = new Set<number>();
  questions = 0;
  most = Infinity;

  is(id: number): boolean {
    if (++this.questions > this.most) throw new Error('the mutant runs for ever');
    if (this.active === undefined) this.reached.add(id);
    return id === this.active;
  }
}

// This module is loaded again for each test file; the code under test is not.
const shared = globalThis as { mutants?: ActiveMutant };
const mutants = (shared.mutants ??= new ActiveMutant());
const { allReached, killed } = mutants;

/**
 * Runs each test as usual, then once more for each mutant that it reaches and that no test has
 * killed. Writes what was reached and killed to the file `MUTATION_RESULT`.
 */
export default class MutationRunner extends TestRunner {
  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test);
    mutants.reached = new Set();
    mutants.questions = 0;
    mutants.most = Infinity;
    const begun = performance.now();
    await within(FIRST_MS, run());
    const limitMs = Math.max(LIMIT_MS, 20 * (performance.now() - begun));
    const most = 100 * mutants.questions + 100_000;
    for (const id of mutants.reached) {
      allReached.add(id);
      if (killed.has(id)) continue;
      Object.assign(mutants, { active: id, questions: 0, most });
      try {
        await within(limitMs, run());
      } catch {
        killed.add(id); // a test that fails has noticed the mutant
      } finally {
        Object.assign(mutants, { active: undefined, most: Infinity });
      }
    }
  }

  override onAfterRunFiles(): void {
    super.onAfterRunFiles();
    const file = process.env['MUTATION_RESULT'];
    if (file)
      writeFileSync(file, JSON.stringify({ reached: [...allReached], killed: [...killed] }));
  }
}

async function within(ms: number, work: PromiseLike<void> | void): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('the mutant hangs')), ms);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
