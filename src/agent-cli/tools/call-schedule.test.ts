import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Schedule } from './call-schedule.ts';

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A schedule whose calls are ended by hand. */
function watched() {
  const schedule = new Schedule();
  const log: string[] = [];
  const ends = new Map<string, () => void>();
  const add = (name: string, parallel: boolean): void =>
    schedule.add(
      async () => {
        log.push(`+${name}`);
        await new Promise<void>((resolve) => ends.set(name, resolve));
        log.push(`-${name}`);
      },
      { parallel },
    );
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await settle();
  };
  return { schedule, log, add, end };
}

test('read-only calls start immediately, others wait for the end of the message and for each other', async () => {
  const { schedule, log, add, end } = watched();
  add('r1', true);
  add('w1', false);
  add('r2', true);
  expect(log).toEqual(['+r1']);
  expect(schedule.started).toBe(1);
  schedule.release();
  await settle();
  expect(log).toEqual(['+r1']);
  await end('r1');
  expect(log).toEqual(['+r1', '-r1', '+w1']);
  await end('w1');
  await end('r2');
  await schedule.idle();
  expect(log).toEqual(['+r1', '-r1', '+w1', '-w1', '+r2', '-r2']);
});

test('a withdrawn message drops its waiting calls', async () => {
  const { schedule, log, add } = watched();
  add('w1', false);
  add('r1', true);
  schedule.drop();
  schedule.release();
  await schedule.idle();
  expect(log).toEqual([]);
});

test('every call runs once, and a call that is not read-only never overlaps another', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.boolean(), fc.nat(3)), { maxLength: 12 }),
      fc.nat(12),
      async (calls, at) => {
        const schedule = new Schedule();
        const running = new Set<number>();
        const done: number[] = [];
        let overlaps = false;
        calls.forEach(([parallel, ticks], i) => {
          if (i === at) schedule.release();
          schedule.add(
            async () => {
              overlaps ||= ![...running].every((other) => parallel && calls[other]?.[0]);
              running.add(i);
              for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
              running.delete(i);
              done.push(i);
            },
            { parallel },
          );
        });
        schedule.release();
        await schedule.idle();
        expect(overlaps).toBe(false);
        expect(done.toSorted((a, b) => a - b)).toEqual(calls.map((_, i) => i));
      },
    ),
  );
});
