import { afterAll, beforeAll, expect, test } from 'vitest';
import { PushConfigs } from '../../src/a2a/push/push-configs.ts';
import type { Bookmark, Claim, TaskLog } from '../../src/task/index.ts';
import { postgresLog } from '../../src/task/postgres/postgres-log.ts';
import { httpServer } from '../a2a/support.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { suite } from '../verifies.ts';

suite('push notifications of replicas on postgres', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres()), 60_000);
  afterAll(() => server[Symbol.asyncDispose](), 60_000);

  interface Replica extends AsyncDisposable {
    readonly log: TaskLog;
    readonly push: PushConfigs;
    /** Names of the bookmarks that it wrote. */
    readonly saved: string[];
    /** Resolves when it has looked twice from now on, so once whole. */
    looked(): Promise<void>;
  }

  async function replica(schema: string): Promise<Replica> {
    const log = await postgresLog({ connectionString: server.url, schema });
    let looks = 0;
    const saved: string[] = [];
    const watched: TaskLog = Object.assign(Object.create(log) as TaskLog, {
      bookmarks(task?: string) {
        if (task === undefined) looks++;
        return log.bookmarks(task);
      },
      bookmark(mark: Bookmark) {
        saved.push(mark.name);
        return log.bookmark(mark);
      },
      read: log.read.bind(log),
      get: log.get.bind(log),
    });
    const push = new PushConfigs(watched, 'a', {
      allowPrivateAddresses: true,
      retryMs: 1,
      pollMs: 500,
    });
    return {
      log,
      push,
      saved,
      async looked() {
        const enough = looks + 2;
        await expect.poll(() => looks, { timeout: 60_000 }).toBeGreaterThanOrEqual(enough);
      },
      async [Symbol.asyncDispose]() {
        await push[Symbol.asyncDispose]();
        await log[Symbol.asyncDispose]();
      },
    };
  }

  /** A task whose text the test decides, and a receiver that records the events it gets. */
  async function world(log: TaskLog) {
    const turn = { agent: 'a', task: 't', context: 'c', messageId: 'm', parts: [{ text: 'go' }] };
    const { claim } = await log.submit(turn, { worker: 'w' });
    let seq = await log.append(claim as Claim, 1, [{ type: 'run.started' }]);
    const heard: string[] = [];
    const hook = await httpServer((_request, response, body) => {
      const [, said] = /"text":"(s\d+)"/.exec(body) ?? [];
      if (said !== undefined) heard.push(said);
      response.writeHead(200).end();
    });
    return {
      hook: { id: 'mine', url: `${hook.url}/hook` },
      heard,
      async say(...words: string[]) {
        for (const message of words)
          seq = await log.append(claim as Claim, seq, [{ type: 'status', message }]);
      },
      async hears(...words: string[]) {
        await expect.poll(() => heard, { timeout: 60_000 }).toEqual(words);
      },
      [Symbol.asyncDispose]: () => hook[Symbol.asyncDispose](),
    };
  }

  test('one replica delivers each event once, and another goes on when it is gone', async () => {
    await using a = await replica('push_take');
    await using task = await world(a.log);
    await a.push.create('t', task.hook, '1.0', 0);
    await task.say('s1');
    await task.hears('s1');
    await using b = await replica('push_take');
    await b.looked();
    await task.say('s2', 's3', 's4');
    await task.hears('s1', 's2', 's3', 's4');
    await b.looked();
    expect(task.heard).toEqual(['s1', 's2', 's3', 's4']);
    expect(b.saved).toEqual([]);
    await a.push[Symbol.asyncDispose]();
    await task.say('s5', 's6');
    await task.hears('s1', 's2', 's3', 's4', 's5', 's6');
  });

  test('a receiver deleted by one replica gets nothing more from another, and stays deleted', async () => {
    await using a = await replica('push_delete');
    await using b = await replica('push_delete');
    await using task = await world(a.log);
    await a.push.create('t', task.hook, '1.0', 0);
    await task.say('s1');
    await task.hears('s1');
    await b.push.delete('t', 'mine');
    await a.looked();
    await task.say('s2', 's3');
    await a.looked();
    expect(task.heard).toEqual(['s1']);
    expect(await a.push.list('t')).toEqual([]);
  });

  test('one that wants nothing is asked once by each, not for ever', async () => {
    await using a = await replica('push_gone');
    await using task = await world(a.log);
    let asked = 0;
    await using gone = await httpServer((_request, response) => {
      asked++;
      response.writeHead(410).end();
    });
    await a.push.create('t', { id: 'mine', url: `${gone.url}/hook` }, '1.0', 0);
    await task.say('s1');
    await expect.poll(() => asked, { timeout: 60_000 }).toBe(1);
    for (let looks = 0; looks < 4; looks++) await a.looked();
    expect(asked).toBe(1);
  });

  test('a receiver created again by another replica under the same id gets events from there', async () => {
    await using a = await replica('push_anew');
    await using b = await replica('push_anew');
    await using task = await world(a.log);
    await a.push.create('t', task.hook, '1.0', 0);
    await task.say('s1');
    await task.hears('s1');
    await b.push.create('t', task.hook, '1.0', 0);
    await task.hears('s1', 's1');
    await a.looked();
    await task.say('s2');
    await task.hears('s1', 's1', 's2');
    await a.looked();
    expect(task.heard).toEqual(['s1', 's1', 's2']);
  });
});
