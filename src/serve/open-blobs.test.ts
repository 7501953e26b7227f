import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { connectA2A } from '../a2a/index.ts';
import type { Agent } from '../event/types.ts';
import { memoryLog } from '../task/memory/memory-log.ts';
import { fileBlobs } from '../task/blob-store.ts';
import { openBlobs } from './open-blobs.ts';
import { serve } from './serve.ts';

afterEach(() => vi.unstubAllEnvs());

const say: Agent = async function* (_turn, { blobs }) {
  const about = { mediaType: 'text/plain', filename: 'a.txt' };
  const stored = await blobs?.put(about, [Buffer.from('hello')]);
  yield { type: 'text.delta', id: 't', delta: stored?.url ?? 'none' };
};

test('agents store blobs in the store of the server, or else in that of their module', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'duolane-'));
  await using server = await openBlobs(join(directory, 'server'));
  const own = fileBlobs({ directory: join(directory, 'own') });
  const modules = { a: { default: say }, b: { default: say, options: { blobs: own } } };
  for (const [blobs, a, b] of [
    [server, 'server', 'server'],
    [undefined, 'none', 'own'],
  ] as const) {
    const log = memoryLog();
    await using served = await serve(modules, { log, page: false, ...(blobs && { blobs }) });
    const stores = { server, own };
    for (const [name, expected] of Object.entries({ a, b })) {
      const stream = (await connectA2A(`${served.url}/a2a/${name}`)).stream('go');
      await stream.result();
      if (expected === 'none') {
        expect(stream.text).toBe('none');
        continue;
      }
      const response = await fetch(`${served.url}${stream.text}`);
      expect(await response.text()).toBe('hello');
      expect(response.headers.get('content-disposition')).toContain('a.txt');
      const { info } = await stores[expected].get(stream.text.replace('/blobs/', ''));
      expect(info.filename).toBe('a.txt');
    }
    await log[Symbol.asyncDispose]();
  }
  await rm(directory, { recursive: true });
});

test('an address that is not a store is refused, and no message repeats a secret', async () => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', '');
  const refused = async (address: string): Promise<string> => {
    const error = await openBlobs(address).catch((failure: Error) => failure);
    expect(error).toMatchObject({ code: 'invalid' });
    return (error as Error).message;
  };
  expect(await refused('http://x/sesame')).toContain('expected a folder, postgres://… or s3://…');
  expect(await refused('s3://bucket')).toContain('set AWS_ACCESS_KEY_ID');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'id');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'sesame');
  for (const address of [
    's3://id:sesame@bucket/x',
    's3://',
    's3://bucket?secret=sesame',
    's3://bucket?path-style=sesame',
    's3://bucket?endpoint=https://id:sesame@host',
  ])
    expect(await refused(address)).not.toContain('sesame');
});
