import { createSocket } from 'node:dgram';
import { getServers, setServers } from 'node:dns';
import { once } from 'node:events';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { resolvePublicAddress } from './resolve-webhook.ts';

let dns: ReturnType<typeof createSocket>;
const before = getServers();
/** IPv4 addresses by name; the DNS server does not respond for other names. */
const names = new Map<string, readonly number[]>();

beforeEach(async () => {
  dns = createSocket('udp4');
  dns.bind(0, '127.0.0.1');
  await once(dns, 'listening');
  dns.on('message', (query, from) => {
    const labels: string[] = [];
    let at = 12;
    for (; query[at]! > 0; at += query[at]! + 1)
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]!));
    const question = query.subarray(12, at + 5);
    const address = names.get(labels.join('.'));
    if (!address) return;
    const isA = query.readUInt16BE(at + 1) === 1;
    const head = Buffer.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0]);
    const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...address]);
    dns.send(Buffer.concat([head, question, ...(isA ? [answer] : [])]), from.port, from.address);
  });
  setServers([`127.0.0.1:${dns.address().port}`]);
});

afterEach(async () => {
  setServers(before);
  names.clear();
  dns.close();
});

test('names of callers are resolved by DNS, without the threads of other lookups', async () => {
  names.set('hook.example', [93, 184, 215, 14]);
  names.set('inside.example', [10, 0, 0, 1]);
  const silent = ['a', 'b', 'c', 'd'].map((name) =>
    resolvePublicAddress(`https://${name}.silent.example/`, false),
  );
  const isPrivate = expect.stringContaining('is private') as string;
  expect(await resolvePublicAddress('https://hook.example/x', false)).toEqual({
    address: '93.184.215.14',
    family: 4,
  });
  await expect(resolvePublicAddress('https://inside.example/', false)).rejects.toMatchObject({
    message: isPrivate,
  });
  for (const each of await Promise.allSettled(silent))
    expect(each).toMatchObject({ reason: { code: 'network', retryable: true } });
});

test.each(['localhost', 'a.localhost', 'printer', 'printer.local', 'localhost.', 'a.localhost.'])(
  'the name %s is private',
  async (name) => {
    await expect(resolvePublicAddress(`http://${name}/`, false)).rejects.toMatchObject({
      message: expect.stringContaining('is private') as string,
    });
  },
);
