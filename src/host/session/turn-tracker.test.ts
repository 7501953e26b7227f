import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { verifies } from '../../../test/verifies.ts';
import type { JsonObject } from '../../json.ts';
import { mayEndTurn } from '../frames/host-messages.ts';
import { TurnTracker, lastInterruptedTurn } from './turn-tracker.ts';

const life = (command_uuid: string, state: string): JsonObject => ({
  type: 'command_lifecycle',
  command_uuid,
  state,
});
const result = (...uuids: string[]): JsonObject => ({
  type: 'result',
  ...(uuids.length > 0 && { user_message_uuids: uuids }),
});
const init: JsonObject = { type: 'system', subtype: 'init' };
const idle: JsonObject = { type: 'system', subtype: 'session_state_changed', state: 'idle' };

describe('TurnTracker', () => {
  verifies('S18', 'a result ends the turn that it names', () => {
    const turns = new TurnTracker();
    expect([turns.send('a'), turns.send('b')]).toEqual([1, 2]);
    expect(turns.observe(result('b'))).toBe(2);
    expect(turns.open).toBe(1);
    expect(turns.observe({ type: 'result', user_message_uuid: 'a', is_error: true })).toBe(1);
    expect(turns).toMatchObject({ settled: true, last: { turn: 1, isError: true } });
  });

  test('a message that was merged into a running turn ends with it', () => {
    const turns = new TurnTracker();
    turns.send('a');
    turns.observe(life('a', 'started'));
    turns.send('b');
    for (const state of ['queued', 'started', 'completed']) turns.observe(life('b', state));
    expect(turns.observe(result('a', 'b'))).toBe(2);
    expect(turns.observe(life('a', 'completed'))).toBe(0);
    expect(turns.open).toBe(0);
  });

  test('a result without uuids ends started turns, once the CLI has named any uuid', () => {
    const turns = new TurnTracker();
    turns.send('a');
    turns.observe(life('a', 'started'));
    turns.send('b');
    expect(turns.observe(result())).toBe(1);
    expect(turns.observe(result())).toBe(0); // a turn of the CLI's own
    expect(turns.open).toBe(1);
  });

  test('a queued message that was cancelled ends without a result', () => {
    const turns = new TurnTracker();
    turns.send('a');
    turns.send('b');
    expect(turns.observe(life('b', 'cancelled'))).toBe(2);
    expect(turns.observe(result('a'))).toBe(1);
    expect(turns.observe(life('a', 'cancelled'))).toBe(0);
    expect(turns.settled).toBe(true);
  });

  test('without uuids, a result ends the oldest turn, and idle ends those sent before it began', () => {
    const turns = new TurnTracker();
    turns.send('a');
    turns.observe(init);
    turns.send('b');
    turns.send('c');
    expect(turns.observe(result())).toBe(1);
    expect(turns.observe(idle)).toBe(0); // b and c came after the turn began
    turns.observe(init);
    expect(turns.observe(result())).toBe(2);
    turns.send('d'); // still in the pipe when the CLI says idle
    expect(turns.observe(idle)).toBe(3);
    expect(turns.open).toBe(1);
    expect([...turns.snapshot()]).toEqual([['d', 4]]);
  });

  test('without uuids, a message that may have been merged is doubtful until a turn begins', () => {
    const turns = new TurnTracker();
    turns.send('a');
    turns.observe(init);
    turns.send('b');
    expect(turns.doubtful).toBe(false);
    turns.observe(result());
    expect(turns.doubtful).toBe(true);
    turns.observe(init);
    expect(turns.doubtful).toBe(false);
    expect(turns.assumeMerged()).toBe(0);
    turns.send('c');
    turns.observe(result());
    expect(turns.assumeMerged()).toBe(3);
    expect(turns.open).toBe(0);
  });

  test('knows which messages may end a turn', () => {
    expect(mayEndTurn(result())).toBe(true);
    expect(mayEndTurn(life('a', 'cancelled'))).toBe(true);
    expect(mayEndTurn({ type: 'system', subtype: 'turns_merged' })).toBe(true);
    expect(mayEndTurn(life('a', 'completed'))).toBe(false);
    expect(mayEndTurn(init)).toBe(false);
  });

  verifies(
    'S105',
    'with a CLI that names them, each turn ends exactly once, at its own result',
    () => {
      fc.assert(
        fc.property(
          fc.array(fc.nat(5), { minLength: 1, maxLength: 30 }),
          fc.func(fc.boolean()),
          (sizes, strays) => {
            const turns = new TurnTracker();
            const ends: number[] = [];
            let next = 0;
            for (const [at, size] of sizes.entries()) {
              const group = Array.from({ length: size + 1 }, () => `m${next++}`);
              for (const uuid of group) turns.send(uuid);
              if (strays(at)) {
                // the end of a turn that ended long ago, or of no turn
                expect(turns.observe(result('unknown'))).toBe(0);
                expect(turns.observe(life('m0', 'cancelled'))).toBe(at === 0 ? 1 : 0);
                if (at === 0) group.shift();
              }
              if (group.length === 0) continue;
              ends.push(turns.observe(result(...group)));
              expect(turns.observe(result(...group))).toBe(0);
            }
            expect(ends).toEqual([...ends].sort((a, b) => a - b));
            expect(turns.open).toBe(0);
          },
        ),
      );
    },
  );
});

test.each([undefined, null, 'a', 1])('a receipt that says %j of queued turns names none', (odd) => {
  const open = new Map([
    ['a', 1],
    ['b', 2],
  ]);
  expect(lastInterruptedTurn(open, { still_queued: odd })).toBe(2);
  expect(lastInterruptedTurn(open, { still_queued: ['b'] })).toBe(1);
});
