import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openDatabase } from './driver.ts';
import { EntryRows } from './entry-rows.ts';
import { prepareDatabase } from './schema.ts';
import type { EntryRow } from '../store/store.ts';

const KEY = 1;

function open(): EntryRows {
  const db = openDatabase(':memory:');
  prepareDatabase(db, ':memory:');
  db.exec(`insert into tasks(key, id, agent, context, owner, state, changed_seq, epoch, lease_until, needs_run, changed_at)
    values(1, 't', 'a', 'c', '', 'working', 1, 1, 0, 0, 0), (2, 'u', 'a', 'c', '', 'working', 1, 1, 0, 0, 0)`);
  const entries = new EntryRows(db);
  entries.append(2, [{ seq: 1, note: true, line: 'of another task' }]);
  return entries;
}

const plain = (rows: readonly EntryRow[]): EntryRow[] =>
  rows.map(({ seq, note, line }) => ({ seq, note, line }));

describe('entries in SQLite', () => {
  // A reader does not notice how much is appended together, how long the lines are, and what is
  // deleted.
  test('what was appended is read from every place, in pieces of every size', () => {
    const batch = fc.array(
      fc.record({ note: fc.boolean(), chars: fc.constantFrom(1, 200, 40_000) }),
      {
        minLength: 1,
        maxLength: 6,
      },
    );
    fc.assert(
      fc.property(
        fc.array(batch, { maxLength: 8 }),
        fc.array(fc.nat(40)),
        fc.integer({ min: 1, max: 5 }),
        (batches, deleted, maxRows) => {
          const entries = open();
          const all: EntryRow[] = [];
          for (const rows of batches) {
            const numbered = rows.map(({ note, chars }, index): EntryRow => {
              const seq = all.length + 1 + index;
              return { seq, note, line: `${seq}:${'x'.repeat(chars)}` };
            });
            entries.append(KEY, numbered);
            all.push(...numbered);
          }
          entries.delete(KEY, deleted);
          const left = all.filter(({ seq }) => !deleted.includes(seq));
          for (let after = 0; after <= all.length; after++) {
            const expected = left.filter(({ seq }) => seq > after);
            expect(plain([...entries.after(KEY, after)])).toEqual(expected);
            expect(plain(entries.rows(KEY, after, maxRows, Infinity))).toEqual(
              expected.slice(0, maxRows),
            );
          }
          expect(plain([...entries.notes(KEY)])).toEqual(left.filter(({ note }) => note));
          expect(plain([...entries.after(2, 0)])).toHaveLength(1);
        },
      ),
      { numRuns: 150 },
    );
  });

  test('the same place is not written twice', () => {
    const entries = open();
    const row = (seq: number): EntryRow => ({ seq, note: false, line: String(seq) });
    entries.append(KEY, [row(1), row(2)]);
    expect(() => entries.append(KEY, [row(1)])).toThrow('UNIQUE');
  });
});
