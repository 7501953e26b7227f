import { expect, test } from 'vitest';
import type { AgentStorage } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import { TaskSessionStore } from './task-session-store.ts';

function memoryStorage(): AgentStorage {
  const values = new Map<string, unknown>();
  return {
    async set(changes) {
      for (const [key, value] of Object.entries(changes))
        if (value === undefined) values.delete(key);
        else values.set(key, structuredClone(value));
    },
    async *list(prefix) {
      for (const key of [...values.keys()].toSorted())
        if (key.startsWith(prefix)) yield [key, values.get(key)] as const;
    },
  };
}

const resultOf = (id: string, uuid: string): { type: string; uuid: string; message: object } => ({
  type: 'user',
  uuid,
  message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: [] }] },
});

test('a call that has ended leaves nothing for a later call with its id', async () => {
  const store = new TaskSessionStore(memoryStorage(), async function* () {});
  const key = { projectKey: 'p', sessionId: 's' };
  await store.recordStart('s', 'call_0', { cents: 1 });
  expect(await store.startOf('s', 'call_0')).toEqual({ cents: 1 });
  await store.recordResult('s', 'call_0', { content: [] });
  expect(await store.resultOf('s', 'call_0')).toEqual({ content: [] });
  await store.append(key, [resultOf('call_0', 'u1')]);
  expect(await store.startOf('s', 'call_0')).toBeUndefined();
  expect(await store.resultOf('s', 'call_0')).toBeUndefined();
});

test('a call that was stopped without a result of its own leaves no start, either', async () => {
  const store = new TaskSessionStore(memoryStorage(), async function* () {});
  await store.recordStart('s', 'call_0', { cents: 1 });
  await store.append({ projectKey: 'p', sessionId: 's' }, [resultOf('call_0', 'u1')]);
  expect(await store.startOf('s', 'call_0')).toBeUndefined();
});

test('a call waits for the rest of its message', async () => {
  const store = new TaskSessionStore(memoryStorage(), async function* () {});
  const part = (type: string): void =>
    store.observe({
      lane: 'message',
      direction: 'in',
      at: 0,
      data: { type: 'stream_event', event: { type }, parent_tool_use_id: null },
    });
  const { signal } = new AbortController();
  await store.messageComplete(signal);
  const seen: string[] = [];
  part('message_start');
  const complete = store.messageComplete(signal).then(() => seen.push('complete'));
  await new Promise((resolve) => setImmediate(resolve));
  seen.push('message_stop');
  part('message_stop');
  await complete;
  expect(seen).toEqual(['message_stop', 'complete']);
});

test('a message whose calls were not made is removed, to be written again', async () => {
  const prompt = { type: 'user', uuid: 'p', message: { role: 'user', content: 'go' } };
  const content = [{ type: 'tool_use', id: 'c1', name: 'mcp__s__add', input: {} }];
  const message = {
    type: 'assistant',
    uuid: 'a',
    message: { role: 'assistant', id: 'm', content },
  };
  const opened = async (start: boolean): Promise<readonly unknown[]> => {
    const store = new TaskSessionStore(memoryStorage(), async function* () {});
    const key = { projectKey: 'p', sessionId: 's' };
    await store.append(key, [prompt, message] as readonly JsonObject[]);
    if (start) await store.recordStart('s', 'c1', {});
    const options = { again: false, needsOutput: false, mayRepeat: () => true };
    return (await store.openTurn('s', 'p', options))?.open ?? [];
  };
  expect(await opened(true)).toMatchObject([{ callId: 'c1' }]);
  expect(await opened(false)).toEqual([]);
});

test('entries of a message that is arriving are stored when it is complete', async () => {
  const store = new TaskSessionStore(memoryStorage(), async function* () {});
  const key = { projectKey: 'p', sessionId: 's' };
  const part = (event: JsonObject): void =>
    store.observe({
      lane: 'message',
      direction: 'in',
      at: 0,
      data: { type: 'stream_event', event, parent_tool_use_id: null },
    });
  const call = (id: string): { type: string; uuid: string; message: object } => ({
    type: 'assistant',
    uuid: id,
    message: { id: 'msg_1', role: 'assistant', content: [{ type: 'tool_use', id, name: 'find' }] },
  });
  const stored = async (): Promise<readonly unknown[]> =>
    ((await store.load(key)) ?? []).map(({ uuid }) => uuid);
  part({ type: 'message_start', message: { id: 'msg_1' } });
  await store.append(key, [resultOf('call_0', 'before'), call('a')]);
  await store.append(key, [call('b')]);
  expect(await stored()).toEqual(['before']);
  part({ type: 'message_stop' });
  await store.append(key, [resultOf('a', 'after')]);
  expect(await stored()).toEqual(['before', 'a', 'b', 'after']);
});
