import { expect, test } from 'vitest';
import type { LightResponse } from '../../../../http/light-fetch.ts';
import { followEvents } from './follow-events.ts';

test.each([
  ['0', 100],
  ['20', 100],
  ['200', 200],
  ['99999999999999', 3_600_000],
])('a server that sets a wait of %s ms is asked again after %s', async (retry, expected) => {
  const response = new Response(`retry: ${retry}\nid: 1\ndata: {}\n\n`, {
    headers: { 'content-type': 'text/event-stream' },
  });
  const followed = followEvents(response as unknown as LightResponse, {
    take: async () => false,
    reopen: async ({ waitMs }) => {
      throw new Error(`waits ${waitMs}`);
    },
    signal: new AbortController().signal,
  });
  await expect(followed).rejects.toThrow(`waits ${expected}`);
});
