import fc from 'fast-check';
import { getEventListeners } from 'node:events';
import fs, { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ErrorCode } from '../errors.ts';
import { OverflowQueue } from './overflow-queue.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'duolane-test-'));
  // Node keeps the unlinkSync that it finds when it first removes something: not one of the spies.
  rmSync(mkdtempSync(join(directory, 'first-')), { recursive: true });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));
afterEach(() => void vi.restoreAllMocks());

const line = (n: number, size = 40): string => `${n}:`.padEnd(size, 'x');

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of source) items.push(item);
  return items;
}

/** What is in the temporary folder while the queue is in use: nothing, where files lose their name. */
const names = (): string[] => readdirSync(directory);

describe('order', () => {
  test('any interleaving of offers and reads keeps order and loses nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            fc.record({ do: fc.constant('offer'), size: fc.nat(300) }),
            fc.record({ do: fc.constant('read'), size: fc.nat(20) }),
            fc.constant({ do: 'turn', size: 0 }),
          ),
          { maxLength: 120, size: 'max' },
        ),
        fc.nat(256),
        async (steps, memoryBytes) => {
          await using queue = new OverflowQueue<string>({ memoryBytes, directory });
          const reader = queue[Symbol.asyncIterator]();
          const offered: string[] = [];
          const read: string[] = [];
          let pending: Promise<unknown> = Promise.resolve();
          for (const step of steps) {
            if (step.do === 'turn') await new Promise((resolve) => void setImmediate(resolve));
            else if (step.do === 'offer') {
              const item = `${offered.length}é`.padEnd(step.size, '€');
              if (queue.offer(item)) offered.push(item);
            } else {
              // Reads run in the background, one after the other, so that offers fall between them.
              pending = pending.then(async () => {
                for (let n = 0; n < step.size && queue.waiting.items > 0; n++) {
                  const { value } = await reader.next();
                  read.push(value as string);
                }
              });
            }
          }
          await pending;
          queue.close();
          read.push(...(await collect(reader)));
          expect(read).toEqual(offered);
          expect(offered).toHaveLength(steps.filter((step) => step.do === 'offer').length);
          expect(queue.waiting).toEqual({ items: 0, memoryBytes: 0, diskBytes: 0 });
          expect(names()).toEqual([]);
        },
      ),
      { numRuns: 100 },
    );
  });

  test('a reader that waits gets the item without a copy, and in order with what follows', async () => {
    await using queue = new OverflowQueue<{ n: number }>({ memoryBytes: 0, directory });
    const reader = queue[Symbol.asyncIterator]();
    const first = reader.next();
    const item = { n: 1 };
    queue.offer(item);
    queue.offer({ n: 2 });
    expect((await first).value).toBe(item);
    expect((await reader.next()).value).toEqual({ n: 2 });
  });
});

describe('budgets', () => {
  test('items beyond memoryBytes wait on disk', async () => {
    await using queue = new OverflowQueue<string>({ memoryBytes: 4096, directory });
    for (let n = 0; n < 1000; n++) queue.offer(line(n));
    const { items, memoryBytes, diskBytes } = queue.waiting;
    expect(items).toBe(1000);
    expect(memoryBytes).toBeLessThanOrEqual(4096 + 256);
    expect(diskBytes).toBeGreaterThan(1000 * 40 - memoryBytes);
  });

  test('reading frees memory: a reader that keeps up uses no disk', async () => {
    await using queue = new OverflowQueue<string>({ memoryBytes: 100, directory });
    const reader = queue[Symbol.asyncIterator]();
    for (let n = 0; n < 100; n++) {
      queue.offer(line(n));
      queue.offer(line(-n));
      expect(queue.waiting).toMatchObject({ items: 2, diskBytes: 0 });
      await reader.next();
      await reader.next();
      expect(queue.waiting).toEqual({ items: 0, memoryBytes: 0, diskBytes: 0 });
    }
  });

  test('items larger than every buffer pass, next to any other items', async () => {
    await using queue = new OverflowQueue<string>({ memoryBytes: 100, directory });
    const items = [1, 5000, 2, 2, 70_000, 0, 300, 1_000_000, 3].map((size, n) => line(n, size));
    for (const item of items) queue.offer(item);
    queue.close();
    expect(await collect(queue)).toEqual(items);
  });

  test('beyond diskBytes the reader gets every accepted item, then too_large', async () => {
    const queue = new OverflowQueue<string>({ memoryBytes: 100, diskBytes: 4000, directory });
    const taken: string[] = [];
    for (let n = 0; queue.offer(line(n)); n++) taken.push(line(n));
    expect(taken.length).toBeGreaterThan(50);
    expect(queue.offer('late')).toBe(false);
    const read: string[] = [];
    const reading = (async () => {
      for await (const item of queue) read.push(item);
    })();
    await expect(reading).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringMatching(/exceeds diskBytes \(4000\).*increase diskBytes/),
    });
    expect(read).toEqual(taken);
  });

  test('a queue that never runs empty releases what was read, and never fails', async () => {
    await using queue = new OverflowQueue<string>({ memoryBytes: 0, diskBytes: 8000, directory });
    const reader = queue[Symbol.asyncIterator]();
    for (let n = 0; n < 50; n++) queue.offer(line(n));
    for (let n = 0; n < 1000; n++) {
      expect((await reader.next()).value).toBe(line(n));
      expect(queue.offer(line(n + 50))).toBe(true);
    }
  });
});

test('take returns items in memory, in order with the iterator, and none from the disk', async () => {
  await using queue = new OverflowQueue<string>({ memoryBytes: 100, directory });
  const reader = queue[Symbol.asyncIterator]();
  expect(queue.take()).toBeUndefined();
  for (let n = 0; n < 5; n++) queue.offer(line(n));
  expect(queue.take()).toBe(line(0));
  expect(await reader.next()).toMatchObject({ value: line(1) });
  expect(queue.take()).toBeUndefined();
  expect(queue.waiting).toMatchObject({ items: 3 });
  for (const n of [2, 3, 4]) expect(await reader.next()).toMatchObject({ value: line(n) });
  queue.offer(line(5));
  expect(queue.take()).toBe(line(5));
  expect(queue.waiting).toMatchObject({ items: 0, memoryBytes: 0 });
});

describe('the disk', () => {
  const failing = (code: string): never => {
    throw Object.assign(new Error(code), { code });
  };

  test.each<[string, ErrorCode]>([
    ['ENOSPC', 'too_large'],
    ['EDQUOT', 'too_large'],
    ['EACCES', 'invalid'],
    ['EIO', 'internal'],
  ])(
    '%s in a write ends the queue with %s after every item that was taken',
    async (system, code) => {
      const queue = new OverflowQueue<string>({ memoryBytes: 1000, directory });
      const taken: string[] = [];
      for (let n = 0; n < 100; n++) if (queue.offer(line(n))) taken.push(line(n));
      vi.spyOn(fs, 'writeSync').mockImplementation(() => failing(system));
      for (let n = 100; queue.offer(line(n)); n++) taken.push(line(n));
      expect(queue.offer('late')).toBe(false);
      const read: string[] = [];
      const reading = (async () => {
        for await (const item of queue) read.push(item);
      })();
      await expect(reading).rejects.toMatchObject({ code, cause: { code: system } });
      expect(read).toEqual(taken);
    },
  );

  test('the error names a folder that does not exist', async () => {
    const missing = join(directory, 'missing');
    const queue = new OverflowQueue<string>({ memoryBytes: 0, directory: missing });
    expect(queue.offer(line(0, 100))).toBe(false);
    await expect(collect(queue)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringContaining(missing),
    });
  });

  test('a read that fails ends the loop and the queue', async () => {
    const queue = new OverflowQueue<string>({ memoryBytes: 0, directory });
    for (let n = 0; n < 100; n++) queue.offer(line(n));
    vi.spyOn(fs, 'read').mockImplementation(((...args: unknown[]) => {
      (args.at(-1) as (error: Error) => void)(Object.assign(new Error('EIO'), { code: 'EIO' }));
    }) as typeof fs.read);
    await expect(collect(queue)).rejects.toMatchObject({ code: 'internal' });
    expect(queue.offer('late')).toBe(false);
  });

  test('a short write is completed', async () => {
    const real = fs.writeSync.bind(fs) as (...args: unknown[]) => number;
    vi.spyOn(fs, 'writeSync').mockImplementation(((
      fd: number,
      bytes: Buffer,
      at: number,
      length: number,
      to: number,
    ) => real(fd, bytes, at, Math.min(length, 7), to)) as typeof fs.writeSync);
    await using queue = new OverflowQueue<string>({ memoryBytes: 0, directory });
    const items = Array.from({ length: 50 }, (_, n) => line(n));
    for (const item of items) queue.offer(item);
    queue.close();
    expect(await collect(queue)).toEqual(items);
  });

  test('where an open file cannot be unlinked it is private, and deleted when the queue ends', async () => {
    vi.spyOn(fs, 'unlinkSync').mockImplementation(() => failing('EBUSY'));
    const queue = new OverflowQueue<string>({ memoryBytes: 0, directory });
    for (let n = 0; n < 100; n++) queue.offer(line(n));
    expect(names()).toHaveLength(1);
    expect(statSync(join(directory, names()[0] ?? '')).mode & 0o777).toBe(0o600);
    for await (const _ of queue) break;
    expect(names()).toEqual([]);
  });
});

describe('the end', () => {
  test('breaking out drops the waiting items and makes offer return false', async () => {
    const queue = new OverflowQueue<string>({ memoryBytes: 100, directory });
    for (let n = 0; n < 100; n++) queue.offer(line(n));
    for await (const item of queue) {
      expect(item).toBe(line(0));
      break;
    }
    expect(queue.offer('late')).toBe(false);
    expect(queue.waiting).toEqual({ items: 0, memoryBytes: 0, diskBytes: 0 });
  });

  test('breaking out during a read of the disk closes the file after the read', async () => {
    const log: string[] = [];
    const { read, close } = fs;
    vi.spyOn(fs, 'read').mockImplementation(((...args: unknown[]) => {
      const done = args.pop() as (...result: unknown[]) => void;
      (read as (...all: unknown[]) => void)(...args, (...result: unknown[]) => {
        log.push('read');
        done(...result);
      });
    }) as typeof fs.read);
    vi.spyOn(fs, 'close').mockImplementation(((fd: number, done: () => void) => {
      log.push('close');
      close(fd, done);
    }) as typeof fs.close);
    const queue = new OverflowQueue<string>({ memoryBytes: 0, directory });
    for (let n = 0; n < 100; n++) queue.offer(line(n));
    const reader = queue[Symbol.asyncIterator]();
    const reading = reader.next();
    await reader.return?.();
    expect(await reading).toEqual({ done: true, value: undefined });
    expect(log).toEqual(['read', 'close']);
  });

  test('closing during a read of the disk loses nothing', async () => {
    const queue = new OverflowQueue<string>({ memoryBytes: 0, directory });
    const items = Array.from({ length: 100 }, (_, n) => line(n));
    for (const item of items) queue.offer(item);
    const reader = queue[Symbol.asyncIterator]();
    const first = reader.next();
    const reads = vi.spyOn(fs, 'read');
    queue.close();
    queue.close();
    expect(reads).not.toHaveBeenCalled(); // one read at a time
    expect([(await first).value, ...(await collect(reader))]).toEqual(items);
  });

  test('a queue that ended removes its abort listener', async () => {
    const { signal } = new AbortController();
    const queue = new OverflowQueue<number>({ signal });
    queue.offer(1);
    queue.close();
    expect(await collect(queue)).toEqual([1]);
    await new OverflowQueue<number>({ signal })[Symbol.asyncDispose]();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('an abort throws its reason immediately, also if the queue was closed and items wait', async () => {
    const controller = new AbortController();
    const queue = new OverflowQueue<string>({
      memoryBytes: 0,
      directory,
      signal: controller.signal,
    });
    for (let n = 0; n < 100; n++) queue.offer(line(n));
    queue.close();
    const reader = queue[Symbol.asyncIterator]();
    await reader.next();
    controller.abort(new Error('enough'));
    await expect(reader.next()).rejects.toThrow('enough');
    expect(await reader.next()).toEqual({ done: true, value: undefined });
    expect(queue.waiting.items).toBe(0);
  });

  test('a signal that has aborted already gives an ended queue', async () => {
    const queue = new OverflowQueue<string>({ signal: AbortSignal.abort(new Error('before')) });
    expect(queue.offer('x')).toBe(false);
    await expect(collect(queue)).rejects.toThrow('before');
  });

  test('fail delivers the waiting items first, also those on disk', async () => {
    const queue = new OverflowQueue<number>({ memoryBytes: 2, directory });
    for (let n = 0; n < 100; n++) queue.offer(n);
    queue.fail(new Error('broken'));
    const reader = queue[Symbol.asyncIterator]();
    for (let n = 0; n < 100; n++) expect((await reader.next()).value).toBe(n);
    await expect(reader.next()).rejects.toThrow('broken');
    expect((await reader.next()).done).toBe(true);
  });

  test('a decode that throws ends the loop and the queue', async () => {
    const decode = (): never => {
      throw new Error('bad text');
    };
    const queue = new OverflowQueue<number>({ memoryBytes: 0, directory, decode });
    queue.offer(1);
    await expect(collect(queue)).rejects.toThrow('bad text');
    expect(queue.offer(2)).toBe(false);
  });

  test('a second reader and a second concurrent read are rejected', async () => {
    await using queue = new OverflowQueue<number>();
    const reader = queue[Symbol.asyncIterator]();
    expect(() => queue[Symbol.asyncIterator]()).toThrow(
      expect.objectContaining({ code: 'invalid' }) as Error,
    );
    const first = reader.next();
    await expect(reader.next()).rejects.toMatchObject({ code: 'invalid' });
    queue.offer(1);
    expect((await first).value).toBe(1);
  });
});

describe('items', () => {
  test('as bytes go to disk in order, and only while the queue spills', async () => {
    const sizes = fc.array(fc.record({ size: fc.nat(300), bytes: fc.boolean() }), {
      maxLength: 60,
    });
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(256), async (steps, memoryBytes) => {
        const decode = (text: string): string => text;
        const encode = decode;
        await using queue = new OverflowQueue<string>({ memoryBytes, directory, encode, decode });
        const offered = steps.map(({ size, bytes }, n) => {
          const item = `${n}é`.padEnd(size, '€');
          const padded = Buffer.from(`<${item}>`);
          const spilling = queue.spilling;
          const taken = bytes && queue.offerBytes(padded, 1, padded.length - 1);
          padded.fill(0);
          expect(taken).toBe(bytes && spilling);
          if (!taken) queue.offer(item);
          return item;
        });
        queue.close();
        expect(queue.offerBytes(Buffer.from('late'), 0, 4)).toBe(false);
        expect(await collect(queue)).toEqual(offered);
      }),
      { numRuns: 100 },
    );
  });

  test('as bytes that exceed diskBytes end the queue and are not accepted', async () => {
    const queue = new OverflowQueue<string>({ memoryBytes: 0, diskBytes: 100, directory });
    queue.offer('first');
    const large = Buffer.alloc(1000, 0x31);
    expect(queue.offerBytes(large, 0, 1000)).toBe(false);
    const read: string[] = [];
    const reading = (async () => {
      for await (const item of queue) read.push(item);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'too_large' });
    expect(read).toEqual(['first']);
  });

  test('a text given with the item goes to disk, and the item is not encoded', async () => {
    const encode = vi.fn<(item: { n: number }) => string>();
    await using queue = new OverflowQueue<{ n: number }>({ memoryBytes: 8, encode, directory });
    for (let n = 0; n < 50; n++) queue.offer({ n }, `{"n":${n}}`);
    queue.close();
    expect(await collect(queue)).toEqual(Array.from({ length: 50 }, (_, n) => ({ n })));
    expect(encode).not.toHaveBeenCalled();
  });

  test('any JSON value comes back equal from the disk', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.jsonValue()), async (values) => {
        await using queue = new OverflowQueue<unknown>({ memoryBytes: 0, directory });
        for (const value of values) queue.offer(value);
        queue.close();
        expect(await collect(queue)).toEqual(
          values.map((value) => JSON.parse(JSON.stringify(value))),
        );
      }),
      { numRuns: 50 },
    );
  });

  test('offering an item without a JSON form throws', async () => {
    await using queue = new OverflowQueue<unknown>();
    for (const item of [undefined, () => 1, 1n]) {
      expect(() => queue.offer(item)).toThrow(
        expect.objectContaining({ code: 'invalid' }) as Error,
      );
    }
  });
});
