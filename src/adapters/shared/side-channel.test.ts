import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SideChannel } from './side-channel.ts';

test('all items of both sides are yielded, each side in its order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { maxLength: 20 }), fc.scheduler(), async (plan, s) => {
      const aside = new SideChannel<string>();
      const told: Promise<void>[] = [];
      async function* source(): AsyncGenerator<string, void, undefined> {
        for (const [i, own] of plan.entries()) {
          await s.schedule(Promise.resolve());
          if (own) yield `s${i}`;
          else told.push(aside.push(`a${i}`));
        }
      }
      const seen: string[] = [];
      const reading = (async () => {
        for await (const item of aside.with(source())) seen.push(item);
      })();
      await s.waitFor(reading);
      await Promise.all(told);
      const expected = plan.map((own, i) => `${own ? 's' : 'a'}${i}`);
      for (const kind of ['s', 'a'])
        expect(seen.filter((item) => item.startsWith(kind))).toEqual(
          expected.filter((item) => item.startsWith(kind)),
        );
    }),
  );
});

test('pushed items are yielded while the source yields nothing', async () => {
  const aside = new SideChannel<string>();
  let end = (): void => {};
  async function* source(): AsyncGenerator<string, void, undefined> {
    await new Promise<void>((resolve) => (end = resolve));
  }
  const reader = aside.with(source());
  const first = reader.next();
  await Promise.resolve();
  const told = aside.push('word');
  expect(await first).toEqual({ done: false, value: 'word' });
  await told;
  end();
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test('push waits while the queue is full', async () => {
  const aside = new SideChannel<number>();
  let end = (): void => {};
  async function* source(): AsyncGenerator<number, void, undefined> {
    await new Promise<void>((resolve) => (end = resolve));
  }
  const reader = aside.with(source());
  const first = reader.next();
  await Promise.resolve();
  for (let i = 0; i < 1001; i++) await aside.push(i);
  let waits = true;
  const last = aside.push(1001).then(() => (waits = false));
  await new Promise(setImmediate);
  expect([await first, waits]).toEqual([{ done: false, value: 0 }, true]);
  for (let i = 1; i <= 1001; i++) expect((await reader.next()).value).toBe(i);
  await last;
  end();
  expect((await reader.next()).done).toBe(true);
});

test('when the reader stops, waiting and later pushes resolve', async () => {
  const aside = new SideChannel<string>();
  async function* source(): AsyncGenerator<string, void, undefined> {
    yield 'one';
    yield 'two';
  }
  const told: Promise<void>[] = [];
  for await (const item of aside.with(source())) {
    expect(item).toBe('one');
    told.push(aside.push('unheard'));
    break;
  }
  await Promise.all([...told, aside.push('too late')]);
});

test('the failure of the source is thrown', async () => {
  const aside = new SideChannel<string>();
  async function* source(): AsyncGenerator<string, void, undefined> {
    yield 'one';
    throw new Error('broken');
  }
  const reader = aside.with(source());
  await reader.next();
  await expect(reader.next()).rejects.toThrow('broken');
});
