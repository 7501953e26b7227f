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
  else describe.skip(`suite ${name} (skipped: ${reasonFor(name, missing)})`, define);
}

/** One test that needs something a machine may lack; like `suite`, but no row depends on it. */
export function testIf(
  missing: string | undefined,
  name: string,
  run: (context: TestContext) => void | Promise<void>,
  timeoutMs?: number,
): void {
  if (missing === undefined) test(name, run, timeoutMs);
  else test.skip(`${name} (skipped: ${reasonFor(name, missing)})`, run);
}

/** Skips a test that detects while it runs that it cannot run on this machine. */
export function skipBecause(context: TestContext, reason: string): never {
  Object.assign(context.task.meta, { skipped: reasonFor(context.task.name, reason) });
  return context.skip(reason);
}

/** For `missing`: these tests use signals and process groups. */
export const noWindows: string | undefined =
  process.platform === 'win32' ? 'Windows has neither signals nor process groups' : undefined;

function reasonFor(name: string, reason: string): string {
  if (reason.trim() === '') throw new TypeError(`"${name}" is skipped, but gives no reason`);
  return reason;
}
