import { expect, test, vi } from 'vitest';
import type { Items } from '../../stream/types.ts';
import { TokenSigner } from './signed-token.ts';
import { CursorPages } from './cursor-pages.ts';

/** Numbers that can be gone on with at any place, if the list says where it is. */
function numbers(after: string | undefined, checkpoints: boolean): Items<number> {
  const list = {
    checkpoint: undefined as string | undefined,
    async *[Symbol.asyncIterator]() {
      for (let n = Number(after ?? 0) + 1; n <= 9; n += 1) {
        if (checkpoints) list.checkpoint = String(n);
        yield n;
      }
    },
  };
  return list;
}

const open = (secret: string, checkpoints = true): CursorPages<number> =>
  new CursorPages(({ after }) => numbers(after, checkpoints), {
    pageSize: 4,
    signer: new TokenSigner(secret),
    kind: 'numbers',
  });

const { signal } = new AbortController();

test('a cursor is valid at another instance with the same secret, and at no other', async () => {
  await using here = open('shared');
  await using there = open('shared');
  await using stranger = open('another');
  const first = await here.page(undefined, signal);
  expect(first.items).toEqual([1, 2, 3, 4]);
  const second = await there.page(first.nextCursor, signal);
  expect(second.items).toEqual([5, 6, 7, 8]);
  expect((await here.page(second.nextCursor, signal)).items).toEqual([9]);
  await expect(stranger.page(first.nextCursor, signal)).rejects.toMatchObject({ code: 'invalid' });
});

test('a list that cannot be continued is never confused with another', async () => {
  await using here = open('shared', false);
  await using there = open('shared', false);
  const mine = await here.page(undefined, signal);
  const other = await there.page(undefined, signal);
  expect(mine.nextCursor).not.toBe(other.nextCursor);
  expect((await here.page(mine.nextCursor, signal)).items).toEqual([5, 6, 7, 8]);
});

test('a cursor expires after a day', async () => {
  await using here = open('shared');
  await using there = open('shared');
  const { nextCursor } = await here.page(undefined, signal);
  const now = Date.now();
  const clock = vi.spyOn(Date, 'now').mockReturnValue(now + 25 * 60 * 60 * 1000);
  try {
    await expect(there.page(nextCursor, signal)).rejects.toMatchObject({
      code: 'invalid',
      message: 'the cursor has expired; list again from the start',
    });
  } finally {
    clock.mockRestore();
  }
});

test('a signal that has aborted, or aborts later, ends the list and closes it', async () => {
  for (const when of ['before', 'during'] as const) {
    const client = new AbortController();
    const reason = new Error('the client disconnected');
    let closed = false;
    const source = (): Items<number> => ({
      async *[Symbol.asyncIterator]() {
        try {
          for (let n = 1; ; n += 1) {
            if (when === 'during' && n === 3) client.abort(reason);
            yield n;
          }
        } finally {
          closed = true;
        }
      },
    });
    const options = { pageSize: 4, signer: new TokenSigner('x'), kind: 'numbers' };
    await using pages = new CursorPages(source, options);
    if (when === 'before') client.abort(reason);
    await expect(pages.page(undefined, client.signal)).rejects.toBe(reason);
    expect(closed).toBe(when === 'during'); // a list that was not begun has nothing to close
  }
});
