import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { DuolaneError } from '../../src/errors.ts';
import type { Target } from './parsers.ts';

/** What an input did that none may do; nothing comes back if all is well. */
async function attempt(target: Target, input: unknown): Promise<void> {
  try {
    await target.run(input);
  } catch (error) {
    if (!(error instanceof DuolaneError)) throw error;
  }
  const bare: Record<string, unknown> = {};
  if (Object.keys(Object.prototype).length > 0 || bare['polluted'] !== undefined)
    throw new Error('an input has changed Object.prototype');
}

/** The inputs that once failed, from `seeds/<target>.json`; none if there is no such file. */
export function seedsOf(name: string): readonly unknown[] {
  try {
    const file = new URL(`seeds/${name}.json`, import.meta.url);
    return JSON.parse(readFileSync(file, 'utf8')) as unknown[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** First the kept seeds, then as many inputs as told: the same ones for the same seed. */
export async function fuzz(
  target: Target,
  { tries = target.tries, seed = 1 }: { readonly tries?: number; readonly seed?: number } = {},
): Promise<void> {
  for (const input of seedsOf(target.name)) await attempt(target, input);
  await fc.assert(
    fc.asyncProperty(target.inputs, (input) => attempt(target, input)),
    { numRuns: tries, seed, endOnFailure: false, verbose: 0 },
  );
}
