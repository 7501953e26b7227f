import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { fetchFrom } from '../../../../../http/light-fetch.ts';
import type { Address } from '../../../../../http/public-address.ts';
import { Documents } from './documents.ts';

const { signal } = new AbortController();
const at = (...addresses: string[]): readonly Address[] =>
  addresses.map((address) => ({ address, family: 4 }));

/** A service on this machine that a public server must not reach through the client. */
async function internal(): Promise<AsyncDisposable & { port: number; hits: string[] }> {
  const hits: string[] = [];
  const server = createServer((request, response) => {
    hits.push(`${request.method} ${request.headers.host}`);
    response.setHeader('content-type', 'application/json').end('{"ok":true}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    hits,
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('a public tool server', () => {
  test.each([
    ['has a private address besides its public one', at('192.0.2.1', '127.0.0.1')],
    ['resolves to a private address when it is asked', at('127.0.0.1')],
  ])('reaches no service of this machine if its name %s', async (_, addresses) => {
    await using service = await internal();
    const local = new URL(`http://127.0.0.1:${service.port}/admin`);
    // The service of this machine has no certificate of the server.
    const server = new URL(`https://tools.example:${service.port}/mcp`);
    const documents = new Documents(undefined, signal, server, async ({ hostname }) =>
      hostname === 'tools.example' ? addresses : at('127.0.0.1'),
    );
    await expect(documents.find(local)).rejects.toThrow('it is a private address');
    await expect(documents.post(local, 'a=b', {})).rejects.toThrow('it is a private address');
    expect(service.hits).toEqual([]);
  });

  test('resolves a name once, so that it cannot change after the check', async () => {
    await using service = await internal();
    let asked = 0;
    const server = new URL(`http://localhost:${service.port}/mcp`);
    const documents = new Documents(undefined, signal, server, async () => {
      asked += 1;
      return at('127.0.0.1');
    });
    const url = new URL(`http://localhost:${service.port}/metadata`);
    expect(await documents.find(url)).toEqual({ ok: true });
    expect(asked).toBe(1);
  });
});

test('a request connects to the checked address, whatever its name resolves to', async () => {
  await using service = await internal();
  const url = new URL(`http://unknown.invalid:${service.port}/`);
  const response = await fetchFrom(at('127.0.0.1'), url, { signal });
  expect(await response.text()).toBe('{"ok":true}');
  expect(service.hits).toEqual([`GET unknown.invalid:${service.port}`]);
});
