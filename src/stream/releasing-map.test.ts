import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ReleasingMap } from './releasing-map.ts';

type Step =
  | { readonly do: 'set' | 'take' | 'get'; readonly key: number }
  | { readonly do: 'clear' };

const key = fc.nat(6);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 9, arbitrary: fc.record({ do: fc.constantFrom('set', 'take', 'get'), key }) },
  { weight: 1, arbitrary: fc.constant({ do: 'clear' } as const) },
);
const steps = fc.array(step, { maxLength: 40 });

/** The same things done to both. */
class Both {
  readonly register = new ReleasingMap<number, string | undefined>();
  readonly map = new Map<number, string | undefined>();
  #sets = 0;

  /** What each of them says. */
  apply(all: readonly Step[]): { readonly register: unknown[]; readonly map: unknown[] } {
    const said = { register: [] as unknown[], map: [] as unknown[] };
    for (const next of all) {
      this.#apply(next, said);
      said.register.push(this.register.size);
      said.map.push(this.map.size);
    }
    return said;
  }

  #apply(next: Step, said: { readonly register: unknown[]; readonly map: unknown[] }): void {
    const { register, map } = this;
    if (next.do === 'clear') {
      register.clear();
      map.clear();
    } else if (next.do === 'set') {
      const value = ++this.#sets % 5 === 0 ? undefined : `value ${this.#sets}`;
      register.set(next.key, value);
      map.set(next.key, value);
    } else {
      said.register.push(register.has(next.key), register.get(next.key));
      said.map.push(map.has(next.key), map.get(next.key));
      if (next.do === 'get') return;
      said.register.push(register.take(next.key));
      said.map.push(map.get(next.key));
      map.delete(next.key);
    }
  }
}

describe('a releasing map', () => {
  test('behaves like a Map under any sequence of operations', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const both = new Both();
        const said = both.apply(all);
        expect(said.register).toEqual(said.map);
        expect([...both.register.keys()]).toEqual([...both.map.keys()]);
        expect([...both.register.values()]).toEqual([...both.map.values()]);
      }),
    );
  });

  test.each(['keys', 'values'] as const)(
    'behaves like a Map that changes during an iteration over its %s',
    (what) => {
      fc.assert(
        fc.property(steps, fc.array(steps, { maxLength: 12 }), (before, meanwhile) => {
          const both = new Both();
          both.apply(before);
          const [register, map] = [both.register[what](), both.map[what]()];
          for (const changes of meanwhile) {
            expect(register.next()).toEqual(map.next());
            both.apply(changes);
          }
          expect([...register]).toEqual([...map]);
        }),
      );
    },
  );

  test('yields each value once if each is removed when it is seen', () => {
    const register = new ReleasingMap<string, object>();
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
