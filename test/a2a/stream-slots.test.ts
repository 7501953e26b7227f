import { setImmediate as macrotask } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { mountAgent } from './support.ts';
import type { Agent } from '../../src/event/types.ts';

const URL = 'http://localhost/a2a';

const endless: Agent = async function* (_turn, { signal }) {
  yield { type: 'text.delta', id: 'x', delta: 'a' };
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
};

const say = (messageId: string): Request =>
  new Request(URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 7,
      method: 'SendStreamingMessage',
      params: { message: { messageId, role: 'ROLE_USER', parts: [{ text: 'x' }] } },
    }),
  });

// A server that mounts the handler may not abort the signal of the request when the client disconnects.
test.each([0, 1, 2, 3])(
  'a stream whose body is cancelled after %i reads frees its slot',
  async (reads) => {
    await using server = mountAgent(URL, endless, { maxStreams: 1 });
    for (const messageId of ['first', 'second']) {
      const response = await server.handle(say(messageId), { path: '' });
      expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      let waiting = 0;
      for (let n = 0; n < reads; n++) {
        waiting++;
        const read = reader.read().then(() => waiting--);
        if (n < 2) await read;
      }
      await macrotask();
      await reader.cancel();
      await expect.poll(() => waiting).toBe(0);
    }
  },
);
