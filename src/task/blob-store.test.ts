import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Blob, fileBlobs } from './blob-store.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function textOf(blob: Blob): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of blob.body) all.push(chunk);
  return Buffer.concat(all).toString();
}

describe('file blobs', () => {
  let directory: string;
  beforeAll(async () => void (directory = await mkdtemp(join(tmpdir(), 'duolane-'))));
  afterAll(() => rm(directory, { recursive: true }));
  const entry = { task: '../t', mediaType: 'text/plain' };

  test('come back whole and by ranges', async () => {
    const blobs = fileBlobs({ directory });
    const info = await blobs.put({ ...entry, filename: 'a.txt' }, [bytes('01234'), bytes('56789')]);
    expect(info).toMatchObject({ task: '../t', bytes: 10, filename: 'a.txt' });
    const read = async (range: object): Promise<string> => textOf(await blobs.get(info.id, range));
    expect(await read({})).toBe('0123456789');
    expect(await read({ start: 2, end: 4 })).toBe('234');
    expect(await read({ start: 7 })).toBe('789');
    expect(await read({ start: -3 })).toBe('789');
    expect(await read({ start: 8, end: 100 })).toBe('89');
    await expect(read({ start: 10 })).rejects.toMatchObject({ code: 'invalid' });
  });

  test('an empty one is empty', async () => {
    const blobs = fileBlobs({ directory });
    const { id } = await blobs.put(entry, []);
    expect(await textOf(await blobs.get(id))).toBe('');
  });

  test('are for their owner only, and do not exist for other callers', async () => {
    const blobs = fileBlobs({ directory });
    const { id } = await blobs.put({ ...entry, owner: 'ann' }, [bytes('x')]);
    expect(await textOf(await blobs.get(id, { caller: 'ann' }))).toBe('x');
    const refusals = [id, id.replace(/.$/, '0'), 'nope', '../../etc/passwd'].map((name) =>
      expect(blobs.get(name, { caller: 'bob' })).rejects.toMatchObject({ code: 'not_found' }),
    );
    await Promise.all(refusals);
    const open = fileBlobs({ directory, mayRead: (_info, caller) => caller === 'admin' });
    expect(await textOf(await open.get(id, { caller: 'admin' }))).toBe('x');
  });

  test('one that is too large or fails leaves nothing behind', async () => {
    const blobs = fileBlobs({ directory: join(directory, 'limits'), maxBytes: 4 });
    const large = blobs.put(entry, [bytes('123'), bytes('45')]);
    await expect(large).rejects.toMatchObject({ code: 'too_large' });
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield bytes('1');
      throw new Error('source broke');
    }
    await expect(blobs.put(entry, broken())).rejects.toThrow('source broke');
    const left = await readdir(join(directory, 'limits'), { recursive: true });
    expect(left).toHaveLength(1);
  });

  test('go with their task', async () => {
    const blobs = fileBlobs({ directory });
    const [gone, kept] = await Promise.all([
      blobs.put({ ...entry, task: 'gone' }, [bytes('x')]),
      blobs.put({ ...entry, task: 'kept' }, [bytes('y')]),
    ]);
    await blobs.removeTask('gone');
    await blobs.removeTask('never there');
    await expect(blobs.get(gone.id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await textOf(await blobs.get(kept.id))).toBe('y');
  });
});
