import { expect, test } from 'vitest';
import type { Entry } from '../../event/types.ts';
import type { TaskLog } from '../../task/types.ts';
import type { ServerContext } from './dispatch-operation.ts';
import { followTaskStream, once, type TaskStreamEvent } from './task-stream.ts';
import { serveJsonRpc } from './json-rpc-binding.ts';
import { StreamRegistry } from '../../http/stream-registry.ts';

// If one event cannot be sent, the events before it are sent, and then the error.

test('events before an entry that cannot be encoded are sent', async () => {
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] };
  const entries: Entry[] = [
    { type: 'turn.submitted', turn, seq: 1, at: 1 },
    { type: 'run.started', seq: 2, at: 2 },
    { type: 'status', message: 'fine', seq: 3, at: 3 },
    // This time is outside of the range of a date, so encoding it throws.
    { type: 'status', message: 'poison', seq: 4, at: 2 ** 53 },
  ];
  const log = {
    read() {
      const rest = [...entries];
      return {
        take: () => rest.shift(),
        async *[Symbol.asyncIterator]() {
          for (let entry = rest.shift(); entry; entry = rest.shift()) yield entry;
        },
      };
    },
  } as unknown as TaskLog;
  const begin = async () => ({ task: 't', start: { after: '0' } });
  const seen: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const batch of followTaskStream(log, begin, {
      signal: new AbortController().signal,
    }))
      seen.push(...batch.map(({ id }) => id));
  };
  await expect(reading()).rejects.toThrow(RangeError);
  expect(seen).toEqual(['1', '2', '3']);
});

test('events of a batch before one that cannot be written are sent', async () => {
  const event = (id: string, data: unknown): TaskStreamEvent => ({
    id,
    last: false,
    out: {
      artifactUpdate: {
        taskId: 't',
        contextId: 'c',
        artifact: { artifactId: 'a', parts: [{ data }] },
      },
    },
  });
  const batch = [event('1', 'fine'), event('2', 1n), event('3', 'behind')];
  const reported: unknown[] = [];
  const binding = {
    operations: { subscribe: async () => ({ ended: false, batches: once(batch) }) },
    streams: new StreamRegistry(1),
    heartbeatMs: 60_000,
    maxBodyBytes: 1000,
    extensions: [],
    requiredExtensions: [],
    onError: (error: unknown) => reported.push(error),
  } as unknown as ServerContext;
  const request = new Request('http://127.0.0.1/', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id: 't' } }),
  });
  const text = await (await serveJsonRpc(request, {}, binding)).text();
  expect(text).toMatch(/^id: ?1$/m);
  expect(text).toContain('"fine"');
  expect(text).toContain('-32603');
  expect(text.indexOf('fine')).toBeLessThan(text.indexOf('-32603'));
  expect(text).not.toContain('behind');
  expect(reported).toHaveLength(1);
});
