import { expect, test } from 'vitest';
import { readBodyText } from './read-body.ts';

const tooLarge = (): Error => new Error('too large');

/** A body of three chunks that records how many were read. */
function chunked(headers: Record<string, string> = {}): { response: Response; read: () => number } {
  let read = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        read += 1;
        if (read > 3) controller.close();
        else controller.enqueue(new TextEncoder().encode('über'));
      },
    },
    { highWaterMark: 0 },
  );
  return { response: new Response(body, { headers }), read: () => read };
}

test('a body within the limit is read as text', async () => {
  expect(await readBodyText(chunked().response, 15, tooLarge)).toBe('überüberüber');
  const announced = new Request('http://x', {
    method: 'POST',
    body: 'hello',
    headers: { 'content-length': '5' },
  });
  expect(await readBodyText(announced, 5, tooLarge)).toBe('hello');
});

test('an announced length over the limit is rejected before the body is read', async () => {
  const { response, read } = chunked({ 'content-length': '15' });
  await expect(readBodyText(response, 14, tooLarge)).rejects.toThrow('too large');
  expect(read()).toBe(0);
});

test('an unannounced and a compressed body are counted, and not read to their end', async () => {
  for (const headers of [{}, { 'content-length': '3', 'content-encoding': 'gzip' }]) {
    const { response, read } = chunked(headers);
    await expect(readBodyText(response, 9, tooLarge)).rejects.toThrow('too large');
    expect(read()).toBe(2);
  }
});
