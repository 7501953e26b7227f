import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { PushConfigs, type PushOptions } from '../../src/a2a/push/push-configs.ts';
import type { Agent } from '../../src/event/types.ts';
import { serve } from '../../src/serve/index.ts';
import { settledWithin } from '../../src/stream/abort.ts';
import { type Bookmark, type Claim, type TaskLog } from '../../src/task/index.ts';
import { memoryDatabase, openLog } from '../../src/task/store/index.ts';
import { Caller, httpServer } from './support.ts';

interface Heard {
  readonly path: string;
  readonly body: string;
  readonly response: ServerResponse;
}

/** A receiver that responds when the test says so; `at` waits for the nth request. */
async function receive(answers: (heard: Heard, count: number) => number | undefined) {
  const heard: Heard[] = [];
  const server = await httpServer(({ url = '' }: IncomingMessage, response, body) => {
    const one = { path: url, body, response };
    heard.push(one);
    const status = answers(one, heard.length);
    if (status !== undefined) response.writeHead(status).end();
  });
  return {
    ...server,
    heard,
    async at(count: number): Promise<Heard> {
      await expect.poll(() => heard.length, { interval: 2 }).toBeGreaterThanOrEqual(count);
      return heard[count - 1] as Heard;
    },
  };
}

/** A task that emits what the test sends. */
async function speaker(log: TaskLog) {
  const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] };
  const { claim } = await log.submit(turn, { worker: 'w' });
  let seq = await log.append(claim as Claim, 1, [{ type: 'run.started' }]);
  return async (...words: string[]): Promise<void> => {
    for (const message of words)
      seq = await log.append(claim as Claim, seq, [{ type: 'status', message }]);
  };
}

/** The same log, with some of its methods done another way. */
const changed = (log: TaskLog, other: Partial<TaskLog>): TaskLog =>
  ({
    read: log.read.bind(log),
    get: log.get.bind(log),
    bookmark: log.bookmark.bind(log),
    bookmarks: log.bookmarks.bind(log),
    ...other,
  }) as TaskLog;

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

const options: PushOptions = { allowPrivateAddresses: true, retryMs: 1 };

test.each(['1.0', '0.3'] as const)(
  'a config that is deleted has its request broken off, and no other begins (%s)',
  async (version) => {
    const going = gate();
    const agent: Agent = async function* () {
      yield { type: 'text.delta', id: 't', delta: 'Hello' };
      await going.opened;
      yield { type: 'status', message: 'more' };
    };
    await using hook = await receive(({ path }, count) =>
      path === '/mine' && count === 1 ? undefined : 200,
    );
    const log = openLog(memoryDatabase());
    await using served = await serve(agent, { log, page: false, a2a: { push: options } });
    const caller = new Caller(served.url, version);
    const [send, create, remove] =
      version === '1.0'
        ? ['SendMessage', 'CreateTaskPushNotificationConfig', 'DeleteTaskPushNotificationConfig']
        : [
            'message/send',
            'tasks/pushNotificationConfig/set',
            'tasks/pushNotificationConfig/delete',
          ];
    const target = { id: 'mine', url: `${hook.url}/mine` };
    const configuration =
      version === '1.0'
        ? { taskPushNotificationConfig: target, returnImmediately: true }
        : { pushNotificationConfig: target, blocking: false };
    const sent = await caller.call(send, { ...caller.message('go'), configuration });
    const result = sent['result'] as { task?: { id: string }; id: string };
    const task = result.task?.id ?? result.id;
    const { response } = await hook.at(1);
    const closed = once(response, 'close');
    const which =
      version === '1.0'
        ? { taskId: task, id: 'mine' }
        : { id: task, pushNotificationConfigId: 'mine' };
    const removed = caller.call(remove, which);
    expect(await settledWithin(closed, 10_000)).toBe(true);
    expect(await removed).not.toHaveProperty('error');
    expect(response.writableFinished).toBe(false);
    const other = { id: 'other', url: `${hook.url}/other` };
    const made = await caller.call(
      create,
      version === '1.0'
        ? { taskId: task, ...other }
        : { taskId: task, pushNotificationConfig: other },
    );
    expect(made).not.toHaveProperty('error');
    going.open();
    // The other receiver gets the end; so would the deleted one.
    await expect.poll(() => hook.heard.at(-1)?.body).toMatch(/completed/i);
    expect(hook.heard.filter(({ path }) => path === '/mine')).toHaveLength(1);
  },
);

test('a config that is deleted during a poll is not claimed', async () => {
  const log = openLog(memoryDatabase());
  const say = await speaker(log);
  await using hook = await receive(() => 200);
  const target = (id: string) => ({ id, url: `${hook.url}/${id}` });
  const before = new PushConfigs(log, 'a', options);
  await before.create('t', target('mine'), '1.0', 0);
  await before.create('t', target('other'), '1.0', 0);
  await hook.at(2);
  await before[Symbol.asyncDispose]();
  const [read, go] = [gate(), gate()];
  const slow = changed(log, {
    async *bookmarks(task?: string) {
      const marks: Bookmark[] = [];
      for await (const mark of log.bookmarks(task)) marks.push(mark);
      read.open();
      if (task === undefined) await go.opened;
      yield* marks;
    },
  });
  await using push = new PushConfigs(slow, 'a', options);
  await read.opened;
  await push.delete('t', 'mine');
  go.open();
  // What was on its way before may still arrive: only what is said from now on counts.
  const heard = (path: string, word: string): boolean =>
    hook.heard.some((each) => each.path === path && each.body.includes(word));
  for (const word of ['s1', 's2', 's3']) {
    await say(word);
    await expect.poll(() => heard('/other', word)).toBe(true);
  }
  expect(['s1', 's2', 's3'].filter((word) => heard('/mine', word))).toEqual([]);
  await log[Symbol.asyncDispose]();
});

test('a delete that starts during the create of its config runs after it', async () => {
  const log = openLog(memoryDatabase());
  const say = await speaker(log);
  await using hook = await receive(() => 200);
  const [asked, go] = [gate(), gate()];
  const slow = changed(log, {
    async bookmark(mark) {
      if (mark.name === 'push/mine' && mark.data) {
        await log.bookmark(mark);
        asked.open();
        await go.opened;
      } else await log.bookmark(mark);
    },
  });
  await using push = new PushConfigs(slow, 'a', options);
  const made = push.create('t', { id: 'mine', url: `${hook.url}/mine` }, '1.0', 2);
  await asked.opened;
  const deleted = push.delete('t', 'mine');
  // Nothing of the delete waits for anything but the making of the config.
  await push.list('t');
  go.open();
  await Promise.all([made, deleted]);
  expect(await push.list('t')).toEqual([]);
  await push.create('t', { id: 'other', url: `${hook.url}/other` }, '1.0', 2);
  await say('s1', 's2');
  await expect.poll(() => hook.heard.at(-1)?.body).toContain('s2');
  expect(hook.heard.filter(({ path }) => path === '/mine')).toEqual([]);
  await log[Symbol.asyncDispose]();
});

test('after a delete by one replica another starts no further attempt', async () => {
  const database = memoryDatabase();
  const logs = [openLog(database), openLog(database)] as const;
  const say = await speaker(logs[0]);
  await using hook = await receive((_, count) => (count === 2 ? undefined : 200));
  let checks = 0;
  const replicas = async () => [];
  const watched = changed(logs[0], {
    replicas,
    bookmarks(task) {
      if (task !== undefined) checks++;
      return logs[0].bookmarks(task);
    },
  });
  await using a = new PushConfigs(watched, 'a', { ...options, pollMs: 60_000 });
  await using b = new PushConfigs(changed(logs[1], { replicas }), 'a', options);
  await a.create('t', { id: 'mine', url: `${hook.url}/mine` }, '1.0', 2);
  await say('s1', 's2', 's3');
  const { response } = await hook.at(2);
  await b.delete('t', 'mine');
  const before = checks;
  // The attempt that was on the wire fails; it would be made again.
  response.writeHead(500).end();
  await expect.poll(() => checks).toBeGreaterThan(before);
  await a[Symbol.asyncDispose]();
  expect(hook.heard).toHaveLength(2);
  for (const log of logs) await log[Symbol.asyncDispose]();
});

test('configs that are created at the same time have the limit of one task together', async () => {
  const log = openLog(memoryDatabase());
  await speaker(log);
  // Another thread has the bookmarks, as with SQLite.
  const thread = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const slow = changed(log, {
    async *bookmarks(task) {
      await thread();
      yield* log.bookmarks(task);
    },
    async bookmark(mark) {
      await thread();
      await log.bookmark(mark);
    },
  });
  await using hook = await receive(() => 200);
  await using configs = new PushConfigs(slow, 'a', options);
  const creating = Array.from({ length: 40 }, (_, n) =>
    configs.create('t', { id: `c${n}`, url: hook.url }, '1.0', 0),
  );
  const created = await Promise.allSettled(creating);
  expect(created.filter(({ status }) => status === 'fulfilled')).toHaveLength(16);
  expect(await configs.list('t')).toHaveLength(16);
});
