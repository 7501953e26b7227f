import { expect, test } from 'vitest';
import { FAULTS } from '../../src/cli/commands/demo/run-fault.ts';
import type { Side } from '../../src/cli/commands/demo/fault-types.ts';
import { verifies } from '../verifies.ts';
import { expectNoStack, Place } from './support.ts';

async function broken(fault: string): Promise<{ naive: Side; ours: Side; code: number | null }> {
  await using place = await Place.open();
  const ended = await place.run(['demo', '--break', fault, '--json']);
  expectNoStack(ended);
  return { ...(JSON.parse(ended.stdout) as { naive: Side; ours: Side }), code: ended.code };
}

test.each(FAULTS.filter((fault) => fault !== 'string-prompt'))(
  '%s: the naive program breaks the rule, and ours keeps it',
  async (fault) => {
    const { naive, ours, code } = await broken(fault);
    expect({ naive: naive.kept, ours: ours.kept, code }).toEqual({
      naive: false,
      ours: true,
      code: 0,
    });
  },
);

verifies(
  ['S96'],
  'a string prompt that closes stdin loses the tool in silence, and the doctor names the rule',
  async () => {
    const { naive, ours } = await broken('string-prompt');
    expect(naive.kept).toBe(false);
    const story = naive.lines.join('\n');
    expect(story).toContain('exit code 0, no error');
    expect(story).toContain('input-closed-early');
    expect(ours.kept).toBe(true);
  },
);

test('a fault is printed with its rule and with what Duolane does', async () => {
  await using place = await Place.open();
  const { code, stdout } = await place.run(['demo', '--break', 'no-final']);
  expect(code).toBe(0);
  expect(stdout).toMatch(/The naive way/);
  expect(stdout).toMatch(/With Duolane/);
  expect(stdout).toMatch(/Rule +A stream never closes without a final event/);
});

test('an unknown fault is refused with the list of faults', async () => {
  await using place = await Place.open();
  const { code, stderr } = await place.run(['demo', '--break', 'everything']);
  expect(code).toBe(2);
  expect(stderr).toContain('invalid --break "everything": expected string-prompt, late-write');
});
