import { describe, test, type TestContext } from 'vitest';
import { isRequirementId, type RequirementId } from './requirements.ts';

/**
 * A test that proves rows of the requirements: `verifies(['S24', 'S21'], 'a sentence', run)`.
 * The ids become part of the name, so a report of passed tests says which rows are proven.
 * Cite a row only where the test would fail with the feature switched off.
 */
export function verifies(
  ids: RequirementId | readonly RequirementId[],
  name: string,
  run: (context: TestContext) => void | Promise<void>,
  timeoutMs?: number,
): void {
  const cited = [ids].flat();
  const unknown = cited.filter((id) => !isRequirementId(id));
  if (cited.length === 0 || unknown.length > 0)
    throw new TypeError(
      `"${name}" cites ${unknown.join(', ') || 'no row'}: cite ids of test/requirements.ts`,
    );
  test(`${name} [${cited.join(' ')}]`, run, timeoutMs);
}

/**
 * Tests that need something a machine may lack: a peer, a database, a real CLI. Without it
 * (`missing` says why) all of them are skipped, and the report carries the reason. A row that only
 * such a suite proves is checked only where the suite ran.
 */
export function suite(name: string, missing: string | undefined, define: () => void): void {
  if (missing === undefined) describe(`suite ${name}`, define);
  else describe.skip(`suite ${name} (skipped: ${missing})`, define);
}
