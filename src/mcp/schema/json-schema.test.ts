import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { growth } from '../../../test/support/busy.ts';
import { checkOnce, compileJsonSchema } from './json-schema.ts';

const list = (items: object): ReturnType<typeof compileJsonSchema> =>
  compileJsonSchema({ type: 'object', properties: { list: { type: 'array', ...items } } });

test('the time to find equal items grows with their number, not with its square', async () => {
  const schema = list({ uniqueItems: true, items: { type: 'object' } });
  const factor = await growth(1000, async (size) => {
    const items = Array.from({ length: size }, (_, i) => ({ i, same: { deep: [1, 2] } }));
    expect(await schema.check({ list: items })).toMatchObject({ ok: true });
  });
  expect(factor).toBeLessThan(10);
});

test.each([
  [[{ a: 1, b: 2 }, 1, { b: 2, a: 1 }], false],
  [
    [
      [1, [2]],
      [1, [2]],
    ],
    false,
  ],
  [['1', 1, '"1"', true, 'true', null, 'null', {}, '{}', [], '[]', [[]], { a: [] }], true],
  [[0, -0], false],
  [[{ __proto__: 1 }, JSON.parse('{"__proto__":1}')], true],
])('items are compared as JSON values: %j', async (items, ok) => {
  const checked = await list({ uniqueItems: true }).check({ list: items });
  expect(checked.ok).toBe(ok);
  if (!checked.ok)
    expect(checked.problems).toEqual([
      { path: ['list'], message: 'must NOT have duplicate items' },
    ]);
});

test('all problems of a short value are listed, and the first one of a long value', async () => {
  const schema = list({ items: { type: 'string' } });
  const problemsOf = async (length: number): Promise<number> => {
    const checked = await schema.check({ list: Array.from({ length }, () => 1) });
    return checked.ok ? 0 : checked.problems.length;
  };
  expect(await problemsOf(100)).toBe(100);
  expect(await problemsOf(100_000)).toBe(1);
});

test('schemas that are used once are not kept', async () => {
  const kept: WeakRef<object>[] = [];
  for (let i = 0; i < 1000; i++) {
    const schema = { type: 'object', properties: { [`p${i}`]: { type: 'string', const: `${i}` } } };
    kept.push(new WeakRef(schema.properties));
    expect(checkOnce(schema, { [`p${i}`]: `${i}` })).toMatchObject({ ok: true });
  }
  // A WeakRef keeps its target until the end of the job that made it.
  await new Promise((resolve) => setImmediate(resolve));
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  expect(kept.filter((each) => each.deref() !== undefined).length).toBeLessThan(500);
});
