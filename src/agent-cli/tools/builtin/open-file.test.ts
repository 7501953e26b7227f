import { existsSync } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  readFile,
  realpath,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { realPath } from '../../permissions/path-rules.ts';
import { openToEdit, openToRead, openToWrite, readTextFile, writeText } from './open-file.ts';

let root: string;
beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), 'duolane-open-')));
  await mkdir(join(root, 'work/src'), { recursive: true });
  await mkdir(join(root, 'outside'));
  await writeFile(join(root, 'work/src/a.txt'), 'inside');
  await writeFile(join(root, 'outside/a.txt'), 'the outside');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const work = (path: string): string => join(root, 'work', path);

/** After the decision: the folder becomes a link to another one. */
async function swap(): Promise<void> {
  await rename(work('src'), work('old'));
  await symlink(join(root, 'outside'), work('src'));
}

test('a folder that becomes a link after the permission is refused', async () => {
  await swap();
  for (const opening of [openToRead, openToEdit, openToWrite])
    await expect(opening(work('src/a.txt'))).rejects.toThrow();
  for (const path of ['src/new.txt', 'src/deep/er/new.txt'])
    await expect(openToWrite(work(path))).rejects.toThrow();
  expect(await readFile(join(root, 'outside/a.txt'), 'utf8')).toBe('the outside');
  expect(existsSync(join(root, 'outside/new.txt'))).toBe(false);
  expect(existsSync(join(root, 'outside/deep'))).toBe(false);
});

test('a file that becomes a link after the permission is refused', async () => {
  await rm(work('src/a.txt'));
  await symlink(join(root, 'outside/a.txt'), work('src/a.txt'));
  for (const opening of [openToRead, openToEdit, openToWrite])
    await expect(opening(work('src/a.txt'))).rejects.toThrow();
  await symlink(join(root, 'outside/planted.txt'), work('src/dangling.txt'));
  await expect(openToWrite(work('src/dangling.txt'))).rejects.toThrow();
  expect(existsSync(join(root, 'outside/planted.txt'))).toBe(false);
});

test('files are rewritten, shorter and longer, and missing folders are created', async () => {
  for (const [path, text] of [
    ['src/a.txt', 'x'],
    ['src/a.txt', 'much longer than before'],
    ['src/b/c/d.txt', 'new'],
  ] as const) {
    await using handle = await openToWrite(work(path));
    await writeText(handle, text);
    expect(await readFile(work(path), 'utf8')).toBe(text);
  }
});

test('a file above the limit is refused, and an abort ends the reading', async () => {
  const { signal } = new AbortController();
  await using handle = await openToRead(work('src/a.txt'));
  const options = { path: 'a.txt', maxBytes: 5, signal };
  await expect(readTextFile(handle, options)).rejects.toMatchObject({ code: 'too_large' });
  expect(await readTextFile(handle, { ...options, maxBytes: 6 })).toBe('inside');
  const aborted = AbortSignal.abort(new Error('enough'));
  await expect(readTextFile(handle, { ...options, maxBytes: 6, signal: aborted })).rejects.toThrow(
    'enough',
  );
});

test('the real path of a missing file resolves links, also dangling and looping ones', async () => {
  await symlink(join(root, 'outside/none'), work('dangling'));
  await symlink('dangling', work('second'));
  await symlink('loop', work('loop'));
  await symlink('../outside', work('out'));
  expect(realPath(work('second'))).toBe(join(root, 'outside/none'));
  expect(realPath(work('second/deeper'))).toBe(join(root, 'outside/none/deeper'));
  expect(realPath(work('out/x/y'))).toBe(join(root, 'outside/x/y'));
  expect(realPath(work('src/../out/x'))).toBe(join(root, 'outside/x'));
  expect(realPath(work('loop'))).toContain('loop');
});

test('a file that would grow keeps its old text if the disk is full', async () => {
  const file = work('src/a.txt');
  await using handle = await openToWrite(file);
  const full = Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' });
  const size = 'inside'.length;
  // The disk has room for three bytes more.
  const limited: typeof handle = new Proxy(handle, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (name !== 'write')
        return typeof member === 'function' ? (member.bind(target) as unknown) : member;
      return async (bytes: Buffer, offset: number, length: number, position: number) => {
        const room = Math.min(length, size + 3 - position);
        if (room <= 0) throw full;
        return target.write(bytes, offset, room, position);
      };
    },
  });
  await expect(writeText(limited, 'OUTSIDE and much longer')).rejects.toBe(full);
  expect(await readFile(file, 'utf8')).toBe('inside');
  await writeText(limited, 'OUTSIDE!');
  expect(await readFile(file, 'utf8')).toBe('OUTSIDE!');
  await writeText(limited, 'short');
  expect(await readFile(file, 'utf8')).toBe('short');
});
