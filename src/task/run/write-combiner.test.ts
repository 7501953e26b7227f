import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AgentEvent } from '../../event/types.ts';
import { WriteCombiner } from './write-combiner.ts';

const arbitraryEvent: fc.Arbitrary<AgentEvent> = fc.oneof(
  fc.record({
    type: fc.constantFrom('text.delta' as const, 'reasoning.delta' as const),
    id: fc.constantFrom('a', 'b'),
    delta: fc.string(),
    path: fc.constantFrom([], ['sub']),
  }),
  fc.record({
    type: fc.constant('tool.args' as const),
    callId: fc.constantFrom('1', '2'),
    delta: fc.string(),
  }),
  fc.record({ type: fc.constant('status' as const), message: fc.string() }),
);

/** What a reader makes of a list: the same, however the deltas were joined. */
function meaning(events: readonly AgentEvent[]): string[] {
  const said: string[] = [];
  let block = '';
  for (const event of events) {
    const delta = 'delta' in event ? event.delta : undefined;
    const next = JSON.stringify({ ...event, delta: undefined });
    if (delta === undefined || next !== block) said.push(next);
    block = delta === undefined ? '' : next;
    if (delta !== undefined) said[said.length - 1] += delta;
  }
  return said;
}

describe('combiner', () => {
  test('events yielded together are one batch, and a flush does not wait for the turn to end', async () => {
    const batches: number[] = [];
    const combiner = new WriteCombiner(
      async (events) => void batches.push(events.length),
      () => {},
    );
    for (const message of ['a', 'b', 'c']) await combiner.push({ type: 'status', message });
    expect(batches).toEqual([]);
    let turns = 0;
    const turn = setImmediate(() => turns++);
    await combiner.flush();
    clearImmediate(turn);
    expect([batches, turns]).toEqual([[3], 0]);
    await combiner.push({ type: 'status', message: 'd' });
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    expect(batches).toEqual([3, 1]);
  });

  test('batches have the same content as the events, in order, however fast the store is', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(arbitraryEvent), fc.array(fc.nat(3)), async (events, pauses) => {
        const written: AgentEvent[] = [];
        let flying = 0;
        const combiner = new WriteCombiner(
          async (batch) => {
            expect(++flying).toBe(1);
            for (let left = pauses.pop() ?? 0; left > 0; left--) await Promise.resolve();
            written.push(...batch);
            flying--;
          },
          () => {},
        );
        for (const event of events) await combiner.push(event);
        await combiner.flush();
        expect(meaning(written)).toEqual(meaning(events));
        expect(written.length).toBeLessThanOrEqual(events.length);
      }),
    );
  });

  test('a full batch makes the agent wait until the store has taken one', async () => {
    let release = (): void => {};
    const batches: number[] = [];
    const combiner = new WriteCombiner(
      async (batch) => {
        batches.push(batch.length);
        await new Promise<void>((resolve) => (release = resolve));
      },
      () => {},
    );
    let pushed = 0;
    const pushing = (async () => {
      for (; pushed < 2000; pushed++) await combiner.push({ type: 'status', message: 'x' });
    })();
    await new Promise((resolve) => setImmediate(resolve));
    const stalled = pushed;
    expect(stalled).toBeLessThan(600);
    release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(pushed).toBeGreaterThan(stalled);
    const done = pushing.then(() => combiner.flush());
    let over = false;
    void done.finally(() => (over = true));
    while (!over) {
      release();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(batches.reduce((sum, count) => sum + count)).toBe(2000);
  });

  test('joined deltas have a limit', async () => {
    const written: AgentEvent[] = [];
    let release = (): void => {};
    const combiner = new WriteCombiner(
      async (batch) => {
        written.push(...batch);
        if (written.length === 1) await new Promise<void>((resolve) => (release = resolve));
      },
      () => {},
    );
    for (let index = 0; index < 10; index++)
      await combiner.push({ type: 'text.delta', id: 't', delta: 'x'.repeat(10_000) });
    release();
    await combiner.flush();
    const lengths = written.map((event) => ('delta' in event ? event.delta.length : 0));
    expect(Math.max(...lengths)).toBeLessThanOrEqual(32 * 1024);
    expect(lengths.reduce((sum, length) => sum + length)).toBe(100_000);
  });

  test('a failed batch is reported immediately, and no event is accepted after it', async () => {
    const told: unknown[] = [];
    const combiner = new WriteCombiner(
      () => Promise.reject(new Error('refused')),
      (error) => told.push(error),
    );
    await combiner.push({ type: 'status', message: 'x' });
    await expect(combiner.flush()).rejects.toThrow('refused');
    expect(() => combiner.push({ type: 'status', message: 'y' })).toThrow('refused');
    expect(told).toHaveLength(1);
  });
});
