import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../../json.ts';
import type { Items } from '../../../stream/types.ts';
import { batchesOf } from './list-batches.ts';
import { decodeBatch } from '../codec/batch-codec.ts';
import { TOOL } from '../codec/field-layout.ts';

const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Items that arrive immediately or some turns later, then the end or an error. The checkpoint is
 * their number.
 */
function source(
  waits: readonly number[],
  fails: boolean,
): Items<JsonObject> & { pulled: number; closed: boolean } {
  const list = {
    pulled: 0,
    closed: false,
    checkpoint: undefined as string | undefined,
    async *[Symbol.asyncIterator]() {
      try {
        for (const [n, turns] of waits.entries()) {
          for (let left = turns; left > 0; left -= 1) await later();
          list.pulled += 1;
          list.checkpoint = String(n + 1);
          yield { name: `t${n}`, inputSchema: {} };
        }
        if (fails) throw new Error('no more');
      } finally {
        list.closed = true;
      }
    },
  };
  return list;
}

const waits = fc.array(
  fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat({ max: 4 }) }),
  { maxLength: 150 },
);

test('all items are sent in order, however they arrive, followed by the error', async () => {
  await fc.assert(
    fc.asyncProperty(waits, fc.boolean(), async (turns, fails) => {
      const list = source(turns, fails);
      const names: unknown[] = [];
      const reading = (async () => {
        for await (const bytes of batchesOf(TOOL, list)) {
          const { items, checkpoint } = decodeBatch(TOOL, bytes);
          expect(items.length).toBeGreaterThan(0);
          expect(items.length).toBeLessThanOrEqual(32);
          names.push(...items.map(({ name }) => name));
          expect(checkpoint).toBe(String(names.length));
        }
      })();
      if (fails) await expect(reading).rejects.toThrow('no more');
      else await reading;
      expect(names).toEqual(turns.map((_, n) => `t${n}`));
      expect(list.closed).toBe(true);
    }),
  );
});

test('a reader that breaks out closes the source, which is at most a batch and an item ahead', async () => {
  await fc.assert(
    fc.asyncProperty(waits, fc.nat({ max: 5 }), async (turns, wanted) => {
      const list = source([...turns, 0], false);
      let [batches, items] = [0, 0];
      for await (const bytes of batchesOf(TOOL, list)) {
        items += decodeBatch(TOOL, bytes).items.length;
        await later();
        expect(list.pulled).toBeLessThanOrEqual(items + 1);
        if ((batches += 1) > wanted) break;
      }
      expect(list.closed).toBe(true);
    }),
  );
});

test('an item that JSON cannot encode ends the list after the items before it, and closes it', async () => {
  let closed = false;
  const list = (async function* () {
    try {
      yield { name: 'a', inputSchema: {} };
      yield { name: 'b', inputSchema: { n: 1n } };
      yield { name: 'c', inputSchema: {} };
    } finally {
      closed = true;
    }
  })();
  const names: unknown[] = [];
  const reading = (async () => {
    for await (const bytes of batchesOf(TOOL, list))
      names.push(...decodeBatch(TOOL, bytes).items.map(({ name }) => name));
  })();
  await expect(reading).rejects.toThrow(TypeError);
  expect([names, closed]).toEqual([['a'], true]);
});
