import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Register } from './register.ts';

type Step =
  | { readonly do: 'set' | 'take' | 'get'; readonly key: number }
  | { readonly do: 'clear' };

const key = fc.nat(6);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 9, arbitrary: fc.record({ do: fc.constantFrom('set', 'take', 'get'), key }) },
  { weight: 1, arbitrary: fc.constant({ do: 'clear' } as const) },
);
const steps = fc.array(step, { maxLength: 40 });

/** The same things done to both; what `take` gives is compared at once. */
class Both {
  readonly register = new Register<number, string | undefined>();
  readonly map = new Map<number, string | undefined>();
  #sets = 0;

  apply(next: Step): void {
    if (next.do === 'clear') {
      this.register.clear();
      this.map.clear();
    } else if (next.do === 'set') {
      const value = ++this.#sets % 5 === 0 ? undefined : `value ${this.#sets}`;
      this.register.set(next.key, value);
      this.map.set(next.key, value);
    } else if (next.do === 'take') {
      expect(this.register.take(next.key)).toBe(this.map.get(next.key));
      this.map.delete(next.key);
    } else {
      expect(this.register.get(next.key)).toBe(this.map.get(next.key));
      expect(this.register.has(next.key)).toBe(this.map.has(next.key));
    }
    expect(this.register.size).toBe(this.map.size);
  }
}

describe('a register', () => {
  test('is a map, whatever is done to it', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const both = new Both();
        for (const next of all) both.apply(next);
        expect([...both.register.keys()]).toEqual([...both.map.keys()]);
        expect([...both.register.values()]).toEqual([...both.map.values()]);
      }),
    );
  });

  test.each(['keys', 'values'] as const)(
    'is a map to whoever changes it while going through its %s',
    (what) => {
      fc.assert(
        fc.property(steps, fc.array(steps, { maxLength: 12 }), (before, meanwhile) => {
          const both = new Both();
          for (const next of before) both.apply(next);
          const [register, map] = [both.register[what](), both.map[what]()];
          for (const changes of meanwhile) {
            expect(register.next()).toEqual(map.next());
            for (const next of changes) both.apply(next);
          }
          expect([...register]).toEqual([...map]);
        }),
      );
    },
  );

  test('has each value once when each is taken as it is seen', () => {
    const register = new Register<string, object>();
    const values = Array.from({ length: 1000 }, (_, index) => ({ index }));
    for (const value of values) register.set(`k${value.index}`, value);
    const seen: object[] = [];
    let next = 0;
    for (const value of register.values()) {
      seen.push(value);
      register.take(`k${next++}`);
    }
    expect(seen).toEqual(values);
    expect(register.size).toBe(0);
  });
});
