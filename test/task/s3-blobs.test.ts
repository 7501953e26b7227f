import { inspect } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { listen } from '../../src/http/node-server.ts';
import { type S3BlobOptions, s3Blobs } from '../../src/task/s3/index.ts';
import { patternAt } from '../contracts/blob-store.contract.ts';
import { s3Missing, type S3Server, startS3 } from '../support/task/s3.ts';
import { suite } from '../verifies.ts';

const ENTRY = { task: 't', mediaType: 'text/plain' };
const MIB = 1 << 20;
const SECRETS = { accessKeyId: 'AKIDSECRET1', secretAccessKey: 'hunter2hunter2' };

describe('options of s3Blobs', () => {
  const options = { bucket: 'blobs', credentials: SECRETS };
  const rejected = async (more: Partial<S3BlobOptions>): Promise<string> => {
    const failed = await s3Blobs({ ...options, ...more }).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'invalid' });
    return inspect(failed, { depth: 10 });
  };

  test('invalid ones are refused, and no message repeats a secret', async () => {
    expect(await rejected({ endpoint: 'https://ann:hunter2@s3' })).not.toContain('hunter2');
    await rejected({ endpoint: 'ftp://s3' });
    await rejected({ bucket: '../x' });
    await rejected({ region: 'a b' });
    await rejected({ prefix: 'a/../b' });
    await rejected({ prefix: 'a?b' });
    await rejected({ partBytes: 1 });
    const credentials = { ...SECRETS, secretAccessKey: 'hunter2\n' };
    expect(await rejected({ credentials })).not.toContain('hunter2');
    const token = { ...SECRETS, sessionToken: 'hunter2 ' };
    expect(await rejected({ credentials: token })).not.toContain('hunter2');
  });

  test('the store itself shows no secret', async () => {
    expect(inspect(await s3Blobs(options), { depth: 10, showHidden: true })).not.toContain(
      'hunter2',
    );
  });
});

test('only blobs are deleted with a task, whatever keys the service lists', async () => {
  const deleted: string[] = [];
  const names = ['0'.repeat(36), '../../secret', '?versioning', `${'0'.repeat(36)}/../../secret`];
  await using service = await listen(async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    if (request.method === 'DELETE') deleted.push(pathname);
    const keys = names.map((name) => `<Key>${searchParams.get('prefix')}${name}</Key>`);
    return new Response(request.method === 'GET' ? `<List>${keys.join('')}</List>` : null);
  });
  const blobs = await s3Blobs({ bucket: 'blobs', endpoint: service.url, credentials: SECRETS });
  await blobs.removeTask('t');
  expect(deleted).toEqual([expect.stringMatching(/^\/blobs\/[0-9a-f]{32}\/0{36}$/)]);
});

suite('s3 faults', s3Missing, () => {
  let server: S3Server;
  beforeAll(async () => void (server = await startS3()));
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(() => {
    server.fault = () => undefined;
    server.requests.length = 0;
    server.headers.length = 0;
  });
  const open = (more: Partial<S3BlobOptions> = {}) =>
    s3Blobs({ ...server, partBytes: 5 * MIB, ...more });
  /** The fault for the first requests that match. */
  const faultsFor = (pattern: RegExp, ...faults: (ReturnType<S3Server['fault']> & {})[]): void => {
    server.fault = (request) => (pattern.test(request) ? faults.shift() : undefined);
  };
  const SLOW = { status: 503, code: 'SlowDown' };
  const large = [patternAt(0, 6 * MIB), patternAt(6 * MIB, 6 * MIB)];

  test('SlowDown, 500, a timeout and a broken connection are retried', async () => {
    const blobs = await open();
    const timeout = { status: 400, code: 'RequestTimeout' };
    faultsFor(/./, SLOW, 'cut', timeout, { status: 500, code: 'InternalError' });
    const { id } = await blobs.put(ENTRY, [patternAt(0, 10)]);
    expect(server.requests).toHaveLength(5);
    faultsFor(/./, SLOW);
    expect((await blobs.get(id)).info.bytes).toBe(10);
    faultsFor(/^DELETE/, SLOW, 'lose');
    await blobs.removeTask(ENTRY.task);
    await expect(blobs.get(id)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('a part is sent again, and a lost reply to the last request loses nothing', async () => {
    const blobs = await open();
    for (const [pattern, fault] of [
      [/partNumber=2/, SLOW],
      [/partNumber=2/, 'lose'],
      [/^POST .*uploadId=/, SLOW],
    ] as const) {
      faultsFor(pattern, fault);
      const { id } = await blobs.put(ENTRY, large);
      let at = 0;
      for await (const chunk of (await blobs.get(id)).body) {
        expect(Buffer.from(chunk).equals(patternAt(at, chunk.byteLength))).toBe(true);
        at += chunk.byteLength;
      }
      expect(at).toBe(12 * MIB);
    }
    // For the second attempt the upload no longer exists.
    let completions = 0;
    server.fault = (request) => {
      if (!/^POST .*uploadId=/.test(request)) return undefined;
      return ++completions === 1 ? 'lose' : { status: 404, code: 'NoSuchUpload' };
    };
    const { id, bytes } = await blobs.put(ENTRY, large);
    expect(completions).toBe(2);
    expect((await blobs.get(id)).info.bytes).toBe(bytes);
    await blobs.removeTask(ENTRY.task);
    expect(await server.bytes()).toBe(0);
  });

  test('an upload that fails is aborted', async () => {
    const blobs = await open();
    server.fault = (request) =>
      /partNumber=2/.test(request) ? { status: 403, code: 'AccessDenied' } : undefined;
    await expect(blobs.put(ENTRY, large)).rejects.toMatchObject({ code: 'server' });
    expect(server.requests.some((request) => /^DELETE .*uploadId=/.test(request))).toBe(true);
    expect(await server.bytes()).toBe(0);

    // The service says 200, and the failure is in the body.
    server.fault = (request) =>
      /^POST .*uploadId=/.test(request) ? { status: 200, code: 'InvalidPart' } : undefined;
    const failed = blobs.put(ENTRY, large);
    await expect(failed).rejects.toThrow(/InvalidPart/);
    expect(await server.bytes()).toBe(0);
  });

  test('an abort ends retries and uploads', async () => {
    const blobs = await open();
    const stop = new AbortController();
    server.fault = (request) => {
      if (!/partNumber=2/.test(request)) return undefined;
      stop.abort(new Error('enough'));
      return SLOW;
    };
    await expect(blobs.put(ENTRY, large, { signal: stop.signal })).rejects.toThrow('enough');
    expect(await server.bytes()).toBe(0);
  });

  test('a body that breaks off goes on where it ended', async () => {
    const blobs = await open();
    const { id } = await blobs.put(ENTRY, [patternAt(0, 3 * MIB)]);
    const cut = { cutAfter: 700_000 };
    faultsFor(/^GET/, cut, 'cut', cut, SLOW, cut);
    const read: Uint8Array[] = [];
    for await (const chunk of (await blobs.get(id, { start: 10 })).body) read.push(chunk);
    expect(Buffer.concat(read).equals(patternAt(10, 3 * MIB - 10))).toBe(true);
    // The same place again and again is a failure.
    server.fault = (request) => (request.startsWith('GET') ? { cutAfter: 0 } : undefined);
    const reading = (async () => {
      for await (const _ of (await blobs.get(id)).body);
    })();
    await expect(reading).rejects.toMatchObject({ code: 'network' });
    faultsFor(/^GET/, { cutAfter: 0 }); // a list
    await blobs.removeTask(ENTRY.task);
  });

  test('failures that do not pass are not retried, and contain no secret', async () => {
    const wrong = await open({ credentials: SECRETS });
    const failed = await wrong.put(ENTRY, [patternAt(0, 3)]).catch((error: unknown) => error);
    expect(failed).toMatchObject({ code: 'server', status: 403, retryable: false });
    expect(server.requests.filter((request) => request.startsWith('PUT'))).toHaveLength(1);
    const shown = `${inspect(failed, { depth: 10, showHidden: true })} ${JSON.stringify(failed)}`;
    for (const secret of Object.values(SECRETS)) expect(shown).not.toContain(secret);
    expect(shown).toContain('check the credentials');
    // The secret key is never sent.
    expect(JSON.stringify(server.headers)).not.toContain(SECRETS.secretAccessKey);

    const lost = await open({ bucket: 'elsewhere' });
    await expect(lost.put(ENTRY, [])).rejects.toThrow(/NoSuchBucket\); create the bucket/);
    server.fault = () => ({ status: 301, code: 'PermanentRedirect' });
    await expect((await open()).removeTask('t')).rejects.toThrow(/check endpoint, region/);
    server.fault = () => SLOW;
    await expect((await open()).removeTask('t')).rejects.toMatchObject({ code: 'overloaded' });
  });

  test('credentials may come from a function, with a session token', async () => {
    let calls = 0;
    const blobs = await open({
      async credentials() {
        calls++;
        return { ...server.credentials, sessionToken: 'temporary' };
      },
    });
    const { id } = await blobs.put(ENTRY, [patternAt(0, 3)]);
    expect((await blobs.get(id)).info.bytes).toBe(3);
    expect(calls).toBe(2);
    expect(server.headers[0]).toMatchObject({ 'x-amz-security-token': 'temporary' });
    await blobs.removeTask(ENTRY.task);
  });

  test('all blobs of a task are deleted, and objects of others stay', async () => {
    const blobs = await open();
    const other = await (await open({ prefix: 'other' })).put(ENTRY, [patternAt(0, 4)]);
    const infos = await Promise.all(
      Array.from({ length: 20 }, () => blobs.put(ENTRY, [patternAt(0, 1)])),
    );
    await blobs.removeTask(ENTRY.task);
    for (const { id } of infos)
      await expect(blobs.get(id)).rejects.toMatchObject({ code: 'not_found' });
    expect(await server.bytes()).toBe(4);
    await expect(blobs.get(other.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('lists are read page by page', async () => {
    const blobs = await open();
    const infos = [await blobs.put(ENTRY, []), await blobs.put(ENTRY, [])];
    const [first, second] = infos.map(({ id }) => id.replace('.', '/'));
    const page = (keys: string, token: string): string =>
      `<ListBucketResult><IsTruncated>${token !== ''}</IsTruncated>${keys}${token}</ListBucketResult>`;
    faultsFor(
      /^GET/,
      {
        xml: page(
          `<Contents><Key>${first}</Key></Contents><Contents><Key>secret/of/others</Key></Contents>`,
          '<NextContinuationToken>a&amp;b/c=</NextContinuationToken>',
        ),
      },
      { xml: page(`<Contents><Key>${second}</Key></Contents>`, '') },
    );
    await blobs.removeTask(ENTRY.task);
    const sent = (method: string): string[] =>
      server.requests.filter((request) => request.startsWith(method));
    expect(sent('GET')[1]).toContain('continuation-token=a%26b%2Fc%3D');
    expect(sent('DELETE')).toEqual([first, second].map((key) => `DELETE /blobs/${key}`));
  });

  test('names that are too long for S3 are refused before anything is sent', async () => {
    const blobs = await open();
    const long = { ...ENTRY, filename: 'x'.repeat(3000) };
    await expect(blobs.put(long, [])).rejects.toMatchObject({ code: 'too_large' });
    expect(server.requests).toHaveLength(0);
  });
});
