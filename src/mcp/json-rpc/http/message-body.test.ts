import { expect, test } from 'vitest';
import { SseDecoder } from '../../../wire/sse.ts';
import { sseEvents } from './message-body.ts';

test('an event that never ends is `too_large` as soon as it exceeds the limit', async () => {
  let chunks = 0;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        chunks += 1;
        if (chunks > 1_000) return controller.close();
        controller.enqueue(Buffer.from(chunks === 1 ? 'data: ok\n\ndata: ' : 'x'.repeat(100)));
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const data: string[] = [];
  const read = async (): Promise<void> => {
    const decoder = new SseDecoder({ maxBytes: 1_000 });
    for await (const event of sseEvents(new Response(body), decoder)) data.push(event.data);
  };
  await expect(read()).rejects.toMatchObject({ code: 'too_large' });
  expect(data).toEqual(['ok']);
  expect(chunks).toBeLessThan(20);
  expect(cancelled).toBe(true);
});
