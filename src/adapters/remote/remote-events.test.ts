import { expect, test } from 'vitest';
import type { A2AStreamEvent } from '../../a2a/protocol/model.ts';
import { RemoteEvents } from './remote-events.ts';

const events = (): RemoteEvents =>
  new RemoteEvents('https://example.com', { text: '', artifacts: new Set() });

const parts = [{ text: '' }];

const statusOf = (text: string): A2AStreamEvent => ({
  statusUpdate: {
    taskId: 't',
    contextId: 'c',
    status: {
      state: 'TASK_STATE_WORKING',
      timestamp: '',
      message: { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text }] },
    },
  },
});

test.each([
  [
    'artifacts without text',
    (artifactId: string): A2AStreamEvent => ({
      artifactUpdate: { taskId: 't', contextId: 'c', artifact: { artifactId, parts } },
    }),
  ],
  [
    'messages without text',
    (messageId: string): A2AStreamEvent => ({ message: { messageId, role: 'ROLE_AGENT', parts } }),
  ],
  ['status messages', () => statusOf('x')],
  ['long status messages', () => statusOf('x'.repeat(100_000))],
  [
    'updates of an artifact without parts',
    (): A2AStreamEvent => ({
      artifactUpdate: {
        taskId: 't',
        contextId: 'c',
        artifact: { artifactId: 'a', name: 'n', parts: [] },
        append: true,
      },
    }),
  ],
  [
    'replaced texts',
    (id: string): A2AStreamEvent => ({
      artifactUpdate: {
        taskId: 't',
        contextId: 'c',
        artifact: { artifactId: 'a', parts: [{ text: Number(id) % 2 === 0 ? 'x' : '' }] },
      },
    }),
  ],
])('a remote agent cannot send %s without end', (_, event) => {
  const remote = events();
  expect(() => {
    for (let n = 0; n < 200_000; n += 1) remote.receive(event(`${n}`));
  }).toThrow(expect.objectContaining({ code: 'too_large' }));
});

test('a long id of a text is replaced by a short one, which stays the same', () => {
  const remote = events();
  const artifact = { artifactId: 'x'.repeat(10_000), parts: [{ text: 'hi' }] };
  const update = { taskId: 't', contextId: 'c', artifact, append: true } as const;
  const ids = [1, 2]
    .flatMap(() => remote.receive({ artifactUpdate: update }))
    .map((each) => 'id' in each && each.id);
  expect(new Set(ids).size).toBe(1);
  expect(String(ids[0]).length).toBeLessThan(300);
});
