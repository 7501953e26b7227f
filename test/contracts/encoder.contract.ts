import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resume, withIds } from '../../src/event/event-id.ts';
import type { Encoder, Entry } from '../../src/event/types.ts';
import { lawfulLog, numbered, turnOf } from '../support/arbitraries.ts';

export interface EncoderLimits {
  /** Bytes out for each byte of text in, at most, on a long stream of words. */
  readonly bytesPerByte?: number;
  readonly numRuns?: number;
}

const feed = <Out>(encoder: Encoder<Out>, entries: readonly Entry[]): Out[] =>
  entries.flatMap((entry) => [...encoder(entry)]);

/** The whole of a task that says `count` words. */
function words(count: number): Entry[] {
  return [
    { type: 'turn.submitted', turn: turnOf('m1') } as const,
    { type: 'run.started', turn: 'm1', attempt: 1 } as const,
    ...Array.from(
      { length: count },
      () => ({ type: 'text.delta', id: 'x', delta: 'word ' }) as const,
    ),
    { type: 'text.end', id: 'x', text: 'word '.repeat(count) } as const,
    { type: 'run.finished', outcome: 'completed', text: 'word '.repeat(count) } as const,
  ].map((event, i) => numbered(event, i + 1));
}

/** What every output protocol promises, on random valid logs. `make` creates an encoder. */
export function encoderContract<Out>(
  name: string,
  make: () => Encoder<Out>,
  { bytesPerByte = 80, numRuns = 100 }: EncoderLimits = {},
): void {
  const json = (outs: readonly unknown[]): string => JSON.stringify(outs);

  describe(`${name} is an encoder`, () => {
    test('a replay is identical, and a valid log neither makes it throw nor is changed', () => {
      fc.assert(
        fc.property(lawfulLog, (entries) => {
          const before = json(entries);
          expect(json(feed(make(), entries))).toBe(json(feed(make(), entries)));
          expect(json(entries)).toBe(before);
        }),
        { numRuns },
      );
    });

    test('resuming after any id gives exactly the rest, and ids never repeat', () => {
      fc.assert(
        fc.property(lawfulLog, (entries) => {
          const all = feed(withIds(make()), entries);
          expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
          expect(json(feed(resume(make(), '0'), entries))).toBe(json(all));
          for (const [i, { id }] of all.entries())
            expect(json(feed(resume(make(), id), entries))).toBe(json(all.slice(i + 1)));
        }),
        { numRuns: Math.ceil(numRuns / 4) },
      );
    });

    test('its bytes grow with the text, not with its square', () => {
      const bytes = (count: number): number => json(feed(make(), words(count))).length;
      const [some, more] = [bytes(1000), bytes(8000)];
      expect(more).toBeLessThan(some * 8 * 1.6);
      expect(more).toBeLessThan(8000 * 'word '.length * bytesPerByte);
    });
  });
}
