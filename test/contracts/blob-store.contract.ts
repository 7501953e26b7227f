import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Blob, BlobRules, BlobStore } from '../../src/task/blob-store.ts';

/** A blob store, and a look behind it. */
export interface BlobStoreUnderTest {
  /** Opens the store; each call like another replica. */
  open(rules?: BlobRules): Promise<BlobStore & Partial<AsyncDisposable>>;
  /** The bytes that it has stored, visible or not. */
  bytes(): Promise<number>;
  /** How many bytes a writer may have in memory. */
  readonly memoryBytes: number;
  close?(): PromiseLike<void>;
}

const MIB = 1 << 20;
const LARGE = 20 * MIB;
const ENTRY = { task: 't', mediaType: 'text/plain' };

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Bytes whose values depend on their place in the blob. */
export function patternAt(at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = (at + i) * 31 + ((at + i) >> 8);
  return bytes;
}

async function allOf(blob: Blob): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of blob.body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** What every blob store promises. */
export function blobStoreContract(name: string, start: () => Promise<BlobStoreUnderTest>): void {
  describe(`${name} is a blob store`, () => {
    let world: BlobStoreUnderTest;
    let blobs: BlobStore & Partial<AsyncDisposable>;
    beforeAll(async () => {
      world = await start();
      blobs = await world.open();
    });
    afterAll(async () => {
      await blobs[Symbol.asyncDispose]?.();
      await world.close?.();
    });

    test('a blob comes back complete and by ranges', async () => {
      const given = { ...ENTRY, filename: 'a.txt' };
      const info = await blobs.put(given, [bytesOf('01234'), bytesOf(''), bytesOf('56789')]);
      expect(info).toEqual({ ...given, id: expect.any(String), bytes: 10 });
      const read = async (range: object): Promise<string> => {
        const blob = await blobs.get(info.id, range);
        const text = (await allOf(blob)).toString();
        expect(blob.range.end - blob.range.start + 1).toBe(text.length);
        expect(blob.info).toEqual(info);
        return text;
      };
      expect(await read({})).toBe('0123456789');
      expect(await read({ start: 2, end: 4 })).toBe('234');
      expect(await read({ start: 7 })).toBe('789');
      expect(await read({ start: -3 })).toBe('789');
      expect(await read({ start: -30 })).toBe('0123456789');
      expect(await read({ start: 8, end: 100 })).toBe('89');
      expect(await read({ end: 0 })).toBe('0');
      await expect(read({ start: 10 })).rejects.toMatchObject({ code: 'invalid' });
      await expect(read({ start: 5, end: 4 })).rejects.toMatchObject({ code: 'invalid' });
    });

    test('an empty blob is empty', async () => {
      for (const source of [[], [new Uint8Array()]]) {
        const { id, bytes } = await blobs.put(ENTRY, source);
        expect(bytes).toBe(0);
        expect((await allOf(await blobs.get(id))).byteLength).toBe(0);
      }
    });

    test('a large blob is streamed in and out, and its ranges are exact', async () => {
      const before = await world.bytes();
      const hash = createHash('sha256');
      let mostInMemory = 0;
      async function* source(): AsyncGenerator<Uint8Array> {
        const buffer = new Uint8Array(100_003);
        for (let at = 0; at < LARGE; at += buffer.byteLength) {
          // The same buffer for each chunk, as some sources do.
          const chunk = buffer.subarray(0, LARGE - at);
          chunk.set(patternAt(at, chunk.byteLength));
          hash.update(chunk);
          if (at % (10 * buffer.byteLength) === 0)
            mostInMemory = Math.max(mostInMemory, at - ((await world.bytes()) - before));
          yield chunk;
        }
      }
      const { id, bytes } = await blobs.put({ ...ENTRY, task: 'large' }, source());
      expect(bytes).toBe(LARGE);
      expect(mostInMemory).toBeLessThanOrEqual(world.memoryBytes);

      const other = await world.open();
      const read = createHash('sha256');
      let largest = 0;
      for await (const chunk of (await other.get(id)).body) {
        largest = Math.max(largest, chunk.byteLength);
        read.update(chunk);
      }
      expect(read.digest('hex')).toBe(hash.digest('hex'));
      expect(largest).toBeLessThanOrEqual(MIB);
      for (const [first, last] of [
        [MIB / 4 - 1, MIB / 4],
        [MIB / 4, MIB / 2],
        [5 * MIB - 3, 5 * MIB + 3],
        [8 * MIB - 300_000, 8 * MIB + 300_000],
        [LARGE - 1, LARGE - 1],
      ] as const) {
        const part = await allOf(await other.get(id, { start: first, end: last }));
        expect(part.equals(patternAt(first, last - first + 1))).toBe(true);
      }
      await other[Symbol.asyncDispose]?.();
    });

    test('a reader that stops in the middle can read again', async () => {
      const { id } = await blobs.put(ENTRY, [patternAt(0, 3 * MIB)]);
      for (let n = 0; n < 5; n++)
        for await (const chunk of (await blobs.get(id)).body) {
          expect(chunk[0]).toBe(0);
          break;
        }
      expect((await allOf(await blobs.get(id))).byteLength).toBe(3 * MIB);
    });

    test('a blob is for its owner, and does not exist for other callers', async () => {
      const { id } = await blobs.put({ ...ENTRY, owner: 'ann' }, [bytesOf('x')]);
      expect((await allOf(await blobs.get(id, { caller: 'ann' }))).toString()).toBe('x');
      for (const caller of [{ caller: 'bob' }, {}])
        await expect(blobs.get(id, caller)).rejects.toMatchObject({ code: 'not_found' });
      const open = await world.open({ mayRead: (_info, caller) => caller === 'admin' });
      expect((await allOf(await open.get(id, { caller: 'admin' }))).toString()).toBe('x');
      await open[Symbol.asyncDispose]?.();
    });

    test('unknown ids, and names from outside as ids, do not exist', async () => {
      const { id } = await blobs.put(ENTRY, [bytesOf('x')]);
      const [folder = ''] = id.split('.');
      for (const other of [
        id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')),
        `${folder}.00000000-0000-4000-8000-000000000000`,
        `${folder}.${'../'.repeat(12)}`,
        `${folder}/${id.split('.')[1]}`,
        `${id}.json`,
        `${id}?uploads`,
        '',
        'nope',
        '..',
        '../../etc/passwd',
        '%2e%2e%2fetc%2fpasswd',
        "x' or true --",
        'x\0y',
      ])
        await expect(blobs.get(other), other).rejects.toMatchObject({ code: 'not_found' });
    });

    test('names may have any characters', async () => {
      for (const text of [
        '../../t',
        "'; drop table blobs",
        'ä/\\%00',
        'zero\0',
        '\ud800 half',
        '😀',
      ])
        await checkNames(text);
      async function checkNames(text: string): Promise<void> {
        const given = { task: text, owner: text, mediaType: text, filename: text };
        const info = await blobs.put(given, [bytesOf(text)]);
        const blob = await blobs.get(info.id, { caller: text });
        expect(blob.info).toEqual({ ...given, id: info.id, bytes: bytesOf(text).byteLength });
        await blobs.removeTask(text);
        await expect(blobs.get(info.id)).rejects.toMatchObject({ code: 'not_found' });
      }
    });

    test('a blob that is too large leaves nothing behind', async () => {
      const before = await world.bytes();
      const small = await world.open({ maxBytes: 6 * MIB });
      const pieces = Array.from({ length: 7 }, (_, n) => patternAt(n * MIB, MIB));
      await expect(small.put(ENTRY, pieces)).rejects.toMatchObject({ code: 'too_large' });
      expect(await world.bytes()).toBe(before);
      const exact = await small.put(ENTRY, pieces.slice(0, 6));
      expect(exact.bytes).toBe(6 * MIB);
      await small[Symbol.asyncDispose]?.();
    });

    test('a source that fails in the middle leaves nothing behind', async () => {
      const before = await world.bytes();
      for (const good of [0, 1, 12]) {
        async function* broken(): AsyncGenerator<Uint8Array> {
          for (let n = 0; n < good; n++) yield patternAt(n * MIB, MIB);
          throw new Error('the source broke');
        }
        await expect(blobs.put(ENTRY, broken())).rejects.toThrow('the source broke');
      }
      expect(await world.bytes()).toBe(before);
    });

    test('an abort in the middle of a put ends a silent source, and leaves nothing', async () => {
      const before = await world.bytes();
      for (const good of [0, 1, 12]) {
        const stop = new AbortController();
        let wait = (): void => {};
        const silent = new Promise<void>((resolve) => (wait = resolve));
        async function* source(): AsyncGenerator<Uint8Array> {
          for (let n = 0; n < good; n++) yield patternAt(n * MIB, MIB);
          wait();
          await new Promise(() => {});
        }
        const putting = blobs.put(ENTRY, source(), { signal: stop.signal });
        putting.catch(() => {}); // checked below
        await silent;
        stop.abort(new Error('enough'));
        await expect(putting).rejects.toThrow('enough');
      }
      const aborted = { signal: AbortSignal.abort(new Error('too late')) };
      await expect(blobs.put(ENTRY, [bytesOf('x')], aborted)).rejects.toThrow('too late');
      expect(await world.bytes()).toBe(before);
    });

    test('an abort ends a reader', async () => {
      const { id } = await blobs.put({ ...ENTRY, task: 'abort' }, [patternAt(0, 12 * MIB)]);
      const stop = new AbortController();
      const { body } = await blobs.get(id, { signal: stop.signal });
      let read = 0;
      const reading = (async () => {
        for await (const chunk of body) {
          read += chunk.byteLength;
          stop.abort(new Error('enough'));
        }
      })();
      await expect(reading).rejects.toThrow();
      expect(read).toBeLessThan(12 * MIB);
    });

    test('two writers of one task do not disturb each other', async () => {
      const other = await world.open();
      const infos = await Promise.all(
        [blobs, other, blobs, other].map((store, n) =>
          store.put({ ...ENTRY, task: 'two', filename: `${n}` }, [
            patternAt(n, 3 * MIB),
            patternAt(n, 3 * MIB),
          ]),
        ),
      );
      expect(new Set(infos.map(({ id }) => id)).size).toBe(4);
      for (const [n, { id }] of infos.entries()) {
        const [here, there] = await Promise.all([blobs.get(id), other.get(id)]);
        expect(here.info.filename).toBe(`${n}`);
        const expected = Buffer.concat([patternAt(n, 3 * MIB), patternAt(n, 3 * MIB)]);
        expect((await allOf(there)).equals(expected)).toBe(true);
      }
      await other[Symbol.asyncDispose]?.();
    });

    test('the blobs of a task are deleted with it, and no others', async () => {
      const before = await world.bytes();
      const put = (task: string, size: number) =>
        blobs.put({ ...ENTRY, task }, [patternAt(0, size)]);
      const gone = await Promise.all([put('gone', 1), put('gone', 7 * MIB), put('gone', 0)]);
      const kept = await put('gone/kept', 3);
      await blobs.removeTask('gone');
      await blobs.removeTask('gone');
      await blobs.removeTask('never there');
      for (const { id } of gone)
        await expect(blobs.get(id)).rejects.toMatchObject({ code: 'not_found' });
      expect((await allOf(await blobs.get(kept.id))).byteLength).toBe(3);
      expect(await world.bytes()).toBe(before + 3);
    });

    test('disposing twice, and during a put, ends it and leaves nothing', async () => {
      const before = await world.bytes();
      const store = await world.open();
      const dispose = store[Symbol.asyncDispose]?.bind(store);
      if (!dispose) return;
      async function* source(): AsyncGenerator<Uint8Array> {
        yield patternAt(0, MIB);
        started();
        await new Promise(() => {});
      }
      let started = (): void => {};
      const silent = new Promise<void>((resolve) => (started = resolve));
      const putting = store.put(ENTRY, source());
      putting.catch(() => {}); // checked below
      await silent;
      await Promise.all([dispose(), dispose()]);
      await dispose();
      await expect(putting).rejects.toMatchObject({ code: 'closed' });
      await expect(store.put(ENTRY, [])).rejects.toMatchObject({ code: 'closed' });
      expect(await world.bytes()).toBe(before);
    });
  });
}
