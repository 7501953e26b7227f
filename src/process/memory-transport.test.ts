import { expect, test } from 'vitest';
import { verifies } from '../../test/verifies.ts';
import { memoryTransport } from './memory-transport.ts';

async function text(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}

verifies('S9', 'a transport needs no process: both directions, end of input, exit', async () => {
  const { transport, peer } = memoryTransport();
  transport.write('to the ');
  transport.write('peer');
  transport.endInput();
  expect(await text(peer.input)).toBe('to the peer');
  peer.write('to the ');
  peer.write(Buffer.from('host'));
  peer.exit({ code: 3, stderr: 'why' });
  peer.exit({ code: 0 });
  expect(await text(transport.output)).toBe('to the host');
  expect(await transport.exited).toEqual({ code: 3, stderr: 'why' });
});

test('a write beyond the limit returns false until the peer reads', async () => {
  const { transport, peer } = memoryTransport();
  const input = peer.input[Symbol.asyncIterator]();
  expect(transport.write('x'.repeat(100_000))).toBe(false);
  let room = false;
  const drained = transport.drained().then(() => (room = true));
  await new Promise(setImmediate);
  expect(room).toBe(false);
  await input.next();
  await drained;
  expect(transport.write('more')).toBe(true);
});

test('after the end writes and waits fail with `closed`', async () => {
  const { transport, peer } = memoryTransport();
  transport.write('x'.repeat(100_000));
  const waiting = transport.drained();
  peer.exit();
  await expect(waiting).rejects.toMatchObject({ code: 'closed' });
  await expect(transport.drained()).rejects.toMatchObject({ code: 'closed' });
  expect(() => transport.write('x')).toThrow(expect.objectContaining({ code: 'closed' }));
});

test('disposing the transport is an exit with code 0', async () => {
  const { transport } = memoryTransport();
  await transport[Symbol.asyncDispose]();
  await transport[Symbol.asyncDispose]();
  expect(await transport.exited).toEqual({ code: 0, stderr: '' });
});
