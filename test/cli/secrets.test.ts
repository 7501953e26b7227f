import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { Place, type Running } from './support.ts';

/** An agent that says whether it can see the secrets of its server. */
const AGENT = `
export default async function* () {
  yield { type: 'text.delta', id: 't', delta: JSON.stringify(process.env).includes('sesame') ? 'seen' : 'unseen' };
}
`;

const S3_KEY = { DUOLANE_S3_ACCESS_KEY_ID: 'id', DUOLANE_S3_SECRET_ACCESS_KEY: 'sesame' };

const urlOf = async (running: Running): Promise<string> => {
  const [said] = await running.says(/\{.*\}/);
  return (JSON.parse(said) as { url: string }).url;
};
const status = async (url: string, token: string): Promise<number> =>
  (await fetch(`${url}/api/tasks`, { headers: { authorization: `Bearer ${token}` } })).status;

test.each([
  ['a file', ['--auth', 'bearer:@token', '--store', '@store'], {}],
  [
    'the environment',
    [],
    {
      DUOLANE_AUTH: 'bearer:sesame',
      DUOLANE_STORE: 'memory',
      DUOLANE_BLOBS: 's3://bucket?endpoint=http://127.0.0.1:1',
      DUOLANE_S3_ACCESS_KEY_ID: 'sesame-id',
      DUOLANE_S3_SECRET_ACCESS_KEY: 'sesame-key',
    },
  ],
])('duolane serve takes its secrets from %s', async (_, flags, env) => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  await place.write('token', 'sesame\n');
  await place.write('store', 'memory\n');
  const running = place.start(['serve', file, '--port', '0', '--json', ...flags], { env });
  const url = await urlOf(running);
  expect([await status(url, 'sesame'), await status(url, 'other')]).toEqual([200, 401]);
  if (process.platform === 'linux')
    expect(readFileSync(`/proc/${running.child.pid}/cmdline`, 'utf8')).not.toContain('sesame');
  const headers = { authorization: 'Bearer sesame', 'content-type': 'application/json' };
  const answer = await fetch(`${url}/stream-json/agent`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ type: 'user', message: { role: 'user', content: 'hi' } }),
  });
  expect(await answer.text()).toContain('"result":"unseen"');
  expect(running.stderr).not.toContain('can read');
});

test('duolane serve warns of a secret on its command line', async () => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  const options = ['--port', '0', '--json', '--store', 'memory', '--auth', 'bearer:sesame'];
  const running = place.start(['serve', file, ...options]);
  expect(await status(await urlOf(running), 'sesame')).toBe(200);
  expect(running.stderr).toContain(
    '--auth contains a secret that every user of this machine can read',
  );
  expect(running.stderr).not.toContain('sesame');
});

test('duolane serve warns of a password in --store, and does not repeat it', async () => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  // Nothing listens at port 1: the store cannot open the store, and that is said without the password.
  const store = 'postgres://ann:sesame@127.0.0.1:1/tasks';
  const { code, stderr } = await place.run(['serve', file, '--port', '0', '--store', store]);
  expect(code).not.toBe(0);
  expect(stderr).toContain('--store contains a secret that every user of this machine can read');
  expect(stderr).toContain('cannot open the store');
  expect(stderr).not.toContain('sesame');
});

test('duolane serve warns of a password in --blobs, and does not repeat it', async () => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  const blobs = 'postgres://ann:sesame@127.0.0.1:1/tasks';
  const options = ['--port', '0', '--store', 'memory', '--blobs', blobs];
  const { code, stderr } = await place.run(['serve', file, ...options]);
  expect(code).not.toBe(0);
  expect(stderr).toContain('--blobs contains a secret that every user of this machine can read');
  expect(stderr).toContain('cannot open the blob store of --blobs');
  expect(stderr).not.toContain('sesame');
});

test.each([
  ['cannot read the secret of --auth from "missing"', ['--auth', 'bearer:@missing'], {}],
  ['the file "empty" of DUOLANE_STORE is empty', [], { DUOLANE_STORE: '@empty' }],
  ['invalid DUOLANE_AUTH: expected bearer:@<file>', [], { DUOLANE_AUTH: 'sesame' }],
  ['expected a folder, postgres://… or s3://…', ['--blobs', 'gs://sesame'], {}],
  ['credentials are read from the environment', ['--blobs', '@bucket'], S3_KEY],
  ['set DUOLANE_S3_ACCESS_KEY_ID', ['--blobs', 's3://b'], { DUOLANE_S3_SESSION_TOKEN: 'sesame' }],
])('duolane serve refuses: %s', async (message, flags, env) => {
  await using place = await Place.open();
  const file = await place.write('agent.mjs', AGENT);
  await place.write('empty', '\n');
  await place.write('bucket', 's3://id:sesame@bucket\n');
  const { code, stderr } = await place.run(['serve', file, '--port', '0', ...flags], { env });
  expect(code).not.toBe(0);
  expect(stderr).toContain(message);
  expect(stderr).not.toContain('sesame');
});
