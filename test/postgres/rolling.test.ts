import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectA2A, replicaFetch } from '../../src/a2a/index.ts';
import { checkLaws } from '../../src/event/index.ts';
import { type Postgres, postgresMissing, startPostgres } from '../support/task/postgres.ts';
import { collect, Replica, type ReplicaOptions } from '../support/task/replicas.ts';
import { manyWords } from '../task/replica-world.ts';
import { suite } from '../verifies.ts';

suite('rolling restart on postgres', postgresMissing, () => {
  let server: Postgres;
  beforeAll(async () => void (server = await startPostgres()), 60_000);
  afterAll(() => server[Symbol.asyncDispose](), 60_000);

  test('every replica is restarted in turn, and no client loses, doubles or misses an event', async () => {
    const options: ReplicaOptions = {
      log: { connectionString: server.url, schema: server.schema(), heartbeatMs: 1000 },
      graceMs: 2000,
    };
    const replicas = await Promise.all([1, 2, 3].map(() => Replica.start(options)));
    await using _end = {
      async [Symbol.asyncDispose]() {
        await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]()));
      },
    };
    const urls = replicas.map(({ url }) => url);
    const words = 150;
    const begun: Promise<void>[] = [];
    const streams = Array.from({ length: 12 }, async (_, index) => {
      let begin = (): void => {};
      begun.push(new Promise((resolve) => (begin = resolve)));
      const own = [...urls.slice(index % 3), ...urls.slice(0, index % 3)];
      const fetch = replicaFetch(own);
      const client = await connectA2A(`${own[0]}/a2a/again`, { fetch, origins: urls });
      const stream = client.stream(`${words} words of 30 ms`);
      const ids: string[] = [];
      for await (const _event of stream) if (ids.push(stream.lastEventId ?? '') === 3) begin();
      return { stream, ids };
    });
    await Promise.race([Promise.all(begun), Promise.all(streams)]);
    for (const [index, replica] of replicas.entries()) {
      const port = Number(new URL(replica.url).port);
      replica.signal('SIGTERM');
      expect(await replica.exited).toEqual([0, null]);
      replicas[index] = await Replica.start({ ...options, port });
    }
    for (const { stream, ids } of await Promise.all(streams)) {
      expect(stream.task?.status.state).toBe('TASK_STATE_COMPLETED');
      expect(stream.problems).toEqual([]);
      expect(stream.text.endsWith(manyWords(words))).toBe(true);
      expect(new Set(ids).size).toBe(ids.length);
      const entries = await collect((replicas[0] as Replica).read(stream.taskId ?? ''));
      expect(checkLaws(entries)).toEqual([]);
      expect(entries.filter(({ type }) => type === 'run.finished')).toHaveLength(1);
    }
  });
});
