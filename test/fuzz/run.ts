import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { DuolaneError } from '../../src/errors.ts';
import type { Target } from './parsers.ts';

/** Throws if an input caused something that no input may cause. */
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

/** The inputs that failed in the past, from `seeds/<target>.json`; empty without such a file. */
export function seedsOf(name: string): readonly unknown[] {
  try {
    const file = new URL(`seeds/${name}.json`, import.meta.url);
    return JSON.parse(readFileSync(file, 'utf8')) as unknown[];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/** Tries the stored inputs, then `tries` generated ones; the same seed gives the same inputs. */
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
