import { describe, expect, test } from 'vitest';
import { replicaFetch } from './replica-fetch.ts';

const URLS = ['http://one:1', 'http://two:2', 'http://three:3'];

const failed = (cause: object): TypeError =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('lost'), cause) });

/** A fetch whose origins fail in given ways; records the origins of its requests. */
function network(
  down: Readonly<Record<string, object>>,
  body = (): ReadableStream<Uint8Array> => ReadableStream.from([new TextEncoder().encode(':\n\n')]),
): { readonly fetch: typeof globalThis.fetch; readonly asked: string[] } {
  const asked: string[] = [];
  const fetch: typeof globalThis.fetch = async (input) => {
    const { origin, pathname, search } = new URL(input instanceof Request ? input.url : input);
    asked.push(`${origin}${pathname}${search}`);
    const cause = down[origin];
    if (cause) throw failed(cause);
    if (pathname !== '/stream') return new Response('{}');
    return new Response(body(), { headers: { 'content-type': 'text/event-stream' } });
  };
  return { fetch, asked };
}

describe('replicaFetch', () => {
  test('stays with a replica that responds, whatever origin the request names', async () => {
    const { fetch, asked } = network({});
    const call = replicaFetch(URLS, fetch);
    await call('http://two:2/a?b=1');
    await call(new Request('http://three:3/c', { method: 'POST', body: 'x' }));
    expect(asked).toEqual(['http://one:1/a?b=1', 'http://one:1/c']);
  });

  test('a request that reached no server goes to the next replica, and later ones too', async () => {
    const { fetch, asked } = network({ 'http://one:1': { syscall: 'connect' } });
    const call = replicaFetch(URLS, fetch);
    expect((await call('http://one:1/a')).ok).toBe(true);
    await call('http://one:1/b');
    expect(asked).toEqual(['http://one:1/a', 'http://two:2/a', 'http://two:2/b']);
  });

  test('a request that may have been handled is not repeated; the next one goes to the next replica', async () => {
    const { fetch, asked } = network({ 'http://one:1': { code: 'ECONNRESET', syscall: 'read' } });
    const call = replicaFetch(URLS, fetch);
    await expect(call('http://one:1/a')).rejects.toThrow('fetch failed');
    await call('http://one:1/b');
    expect(asked).toEqual(['http://one:1/a', 'http://two:2/b']);
  });

  test('if no replica is reachable, each is tried once', async () => {
    const refused = { syscall: 'connect' };
    const { fetch, asked } = network({
      'http://one:1': refused,
      'http://two:2': refused,
      'http://three:3': refused,
    });
    await expect(replicaFetch(URLS, fetch)('http://one:1/a')).rejects.toThrow('fetch failed');
    expect(asked).toHaveLength(3);
  });

  test('the end or failure of a stream switches the replica, an open stream does not', async () => {
    const { fetch, asked } = network({});
    const call = replicaFetch(URLS, fetch);
    const stream = await call('http://one:1/stream');
    await call('http://one:1/a');
    expect(await stream.text()).toBe(':\n\n');
    await call('http://one:1/b');
    const broken = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.error(new Error('cut')),
    });
    const other = network({}, () => broken);
    const again = replicaFetch(URLS, other.fetch);
    await expect((await again('http://one:1/stream')).text()).rejects.toThrow('cut');
    await again('http://one:1/c');
    expect(asked.at(-1)).toBe('http://two:2/b');
    expect(other.asked.at(-1)).toBe('http://two:2/c');
  });
});
