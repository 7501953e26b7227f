import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { s3Missing, type S3Server, startS3 } from '../support/task/s3.ts';
import { suite } from '../verifies.ts';
import { Place } from './support.ts';

const AGENT = `
export default async function* (turn, { blobs }) {
  const { url } = await blobs.put({ mediaType: 'text/plain' }, [Buffer.from('hello ' + turn.task)]);
  yield { type: 'text.delta', id: 't', delta: url };
}
`;

/** Stores a blob by one process and reads it from another one, which have only the store in common. */
async function expectShared(flags: readonly string[], env: Record<string, string>): Promise<void> {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  const args = ['serve', file, '--port', '0', '--json', '--store', 'memory', ...flags];
  const urls = await Promise.all(
    [place.start(args, { env }), place.start(args, { env })].map(async (running) => {
      const [line] = await running.says(/\{.*\}/);
      return (JSON.parse(line) as { readonly url: string }).url;
    }),
  );
  const response = await fetch(`${urls[0]}/stream-json/agent`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'user', message: { role: 'user', content: 'hi' } }),
  });
  const path = /\/blobs\/[0-9a-f.-]+/.exec(await response.text())?.[0];
  const texts = urls.map(async (url) => (await fetch(`${url}${path}`)).text());
  const [here, there] = await Promise.all(texts);
  expect(here).toMatch(/^hello ./);
  expect(there).toBe(here);
}

test('replicas share the blobs of a folder', () => expectShared(['--blobs', 'blobs'], {}));

suite('serve blobs in s3', s3Missing, () => {
  let server: S3Server;
  beforeAll(async () => void (server = await startS3()));
  afterAll(() => server[Symbol.asyncDispose]());

  test.each(['DUOLANE_S3', 'AWS'])('replicas share a bucket, by credentials of %s', (prefix) =>
    expectShared([], {
      DUOLANE_BLOBS: `s3://${server.bucket}/app?endpoint=${server.endpoint}`,
      [`${prefix}_ACCESS_KEY_ID`]: server.credentials.accessKeyId,
      [`${prefix}_SECRET_ACCESS_KEY`]: server.credentials.secretAccessKey,
    }),
  );
});

suite('serve blobs in postgres', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres(['-c', 'fsync=off'])));
  afterAll(() => server[Symbol.asyncDispose]());

  test('replicas share a database', () => expectShared([], { DUOLANE_BLOBS: server.url }));
});
