import { test } from 'vitest';
import type { RequirementId } from './requirements.ts';

/**
 * A test that proves rows of the requirements: `verifies(['S24', 'S21'], 'a sentence', run)`.
 * The ids become part of the name, so a report of passed tests says which rows are proven.
 * Cite a row only where the test would fail with the feature switched off.
 */
export function verifies(
  ids: RequirementId | readonly RequirementId[],
  name: string,
  run: () => void | Promise<void>,
  timeoutMs?: number,
): void {
  test(`${name} [${[ids].flat().join(' ')}]`, run, timeoutMs);
}
