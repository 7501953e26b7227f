import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Agent, AgentContext, Snapshot } from 'duolane/event';
import { createRunner, memoryLog } from 'duolane/task';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { all, Caller, shape, taskIdOf, type Seen, textOf, wordOf } from '../../test/a2a/support.ts';
import { peer } from '../../test/peers.ts';
import {
  artifactsIn,
  openPlace,
  type Place,
  statusesIn,
  until,
} from '../../test/support/served.ts';
import { suite, verifies } from '../../test/verifies.ts';

// Served over A2A, with the real agent CLI and the real database behind it.

const duckDb = await peer('duckdb');
const QUESTION = 'top 3 products by revenue in Lyon';
const NAMES = ['sql_plan', 'query_summary', 'sql_query', 'query_results'];

suite('duckdb', duckDb.reason, () => {
  let place: Place;
  let events: readonly Seen[];

  beforeAll(async () => {
    place = await openPlace('text-to-sql', async (folder) => {
      process.env['BLOBS_FOLDER'] = join(folder, 'blobs');
      return import('./agent.ts');
    });
    // A client that goes away and comes back: what it has in the end is all there is.
    const seen = await until(place.caller().say(QUESTION), (_, all) => all.length === 3);
    const rest = await all(place.caller().subscribe(taskIdOf(seen), seen.at(-1)?.id));
    events = [...seen, ...rest];
  });
  afterAll(async () => {
    await place[Symbol.asyncDispose]();
    delete process.env['BLOBS_FOLDER'];
  });

  const partsOf = (name: string): readonly { text?: string; data?: unknown }[] =>
    artifactsIn(events).find(({ artifact }) => artifact.name === name)?.artifact.parts ?? [];
  const dataOf = (name: string): { readonly uri: string } =>
    partsOf(name)[0]?.data as { readonly uri: string };
  const fetchBlob = (uri: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(new URL(uri, place.served.url), { headers });

  verifies(
    ['S165', 'S166', 'S172', 'S174'],
    'a question gives four artifacts in their order, each with a uuid, and completes',
    () => {
      expect(wordOf(events.at(-1) as Seen)).toBe('completed');
      const found = artifactsIn(events);
      expect(found.map(({ artifact }) => artifact.name)).toEqual(NAMES);
      // And no other, such as one for the text of the run; only the last is the last chunk.
      const updates = events.flatMap(({ result }) => result['artifactUpdate'] ?? []);
      expect(updates).toHaveLength(4);
      expect(found.map(({ lastChunk = false }) => lastChunk)).toEqual([false, false, false, true]);
      const ids = found.map(({ artifact }) => artifact.artifactId);
      expect(new Set(ids).size).toBe(4);
      for (const id of ids)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    },
  );

  verifies('S167', 'sql_plan is text that is JSON', () => {
    expect(JSON.parse(partsOf('sql_plan')[0]?.text ?? '')).toEqual({
      explanation: 'Revenue by product (Lyon), the top 3',
      tables: ['sales'],
      sql: expect.stringContaining("where city = 'Lyon'"),
    });
  });

  verifies('S168', 'query_summary is text for people, said once', () => {
    const [words, rows] = partsOf('query_summary');
    expect(words?.text).toMatch(/^Revenue by product \(Lyon\), the top 3: 3 rows\. Highest /);
    expect(textOf(events)).toBe('');
    expect(rows?.data).toHaveLength(3);
  });

  verifies('S169', 'sql_query is data with the address of the statement', async () => {
    const data = dataOf('sql_query');
    expect(data).toMatchObject({ type: 'artifact', resource_type: 'sql' });
    const text = await (await fetchBlob(data.uri)).text();
    expect(text).toBe((JSON.parse(partsOf('sql_plan')[0]?.text ?? '') as { sql: string }).sql);
  });

  verifies(
    ['S170', 'S171'],
    'query_results is data with the address of a Parquet file, whole or in ranges',
    async () => {
      const data = dataOf('query_results');
      expect(data).toEqual({
        type: 'artifact',
        uri: expect.stringMatching(/^\/blobs\/[\w.-]+$/),
        resource_type: 'parquet',
        metadata: { row_count: 3, columns: ['product', 'revenue'] },
      });
      const { artifact, lastChunk } = artifactsIn(events).at(-1) ?? {};
      expect([artifact?.name, lastChunk]).toEqual(['query_results', true]);
      const whole = Buffer.from(await (await fetchBlob(data.uri)).arrayBuffer());
      expect([whole.subarray(0, 4), whole.subarray(-4)].map(String)).toEqual(['PAR1', 'PAR1']);
      // As readers of Parquet do it: the footer first.
      const footer = await fetchBlob(data.uri, { range: 'bytes=-8' });
      expect(footer.status).toBe(206);
      expect(Buffer.from(await footer.arrayBuffer())).toEqual(whole.subarray(-8));
    },
  );

  verifies('S163', 'each step is announced by its name', () => {
    expect(statusesIn(events).filter((text) => !text.startsWith('Revenue'))).toEqual([
      'Analysing your request...',
      'Step: plan the query',
      'Step: run the query',
      'Step: summarise the rows',
      'Step: store the results',
    ]);
  });

  test('a cancel ends the query, and nothing is stored', async () => {
    const endless =
      'sql select count(*) from range(1000000000) a, range(1000000000) b where (a.range * b.range) % 7 = 3';
    const seen: Seen[] = [];
    let canceled: unknown;
    for await (const event of place.caller().say(endless)) {
      seen.push(event);
      if (!statusesIn([event]).includes('Step: run the query')) continue;
      canceled = await place.caller().call('CancelTask', { id: taskIdOf(seen) });
    }
    expect(canceled).toMatchObject({ result: { status: { state: 'TASK_STATE_CANCELED' } } });
    expect(wordOf(seen.at(-1) as Seen)).toBe('canceled');
    expect(artifactsIn(seen).map(({ artifact }) => artifact.name)).toEqual(['sql_plan']);
  });

  test.each([
    ['how tall is the moon', 'I do not know \\"tall\\"'],
    ['sql drop table orders', 'only a SELECT may run'],
    ['sql select 1; drop table orders', 'only one statement may run'],
    [
      "sql select repeat('x', 1000) || random() as text from range(55000)",
      'ask for fewer rows or columns',
    ],
  ])(
    '%s is rejected with the reason, and the next question is answered',
    async (question, reason) => {
      const said = await all(place.caller().say(question));
      expect(shape(said).at(-1)).toBe('rejected');
      expect(JSON.stringify(said.at(-1))).toContain(reason);
      const next = await all(place.caller().say('orders'));
      expect(shape(next).at(-1)).toBe('completed');
      expect(JSON.stringify(artifactsIn(next))).toContain('orders 480');
    },
  );

  test('the built command runs it and leaves nothing behind', async () => {
    const command = fileURLToPath(new URL('../../dist/cli/duolane.js', import.meta.url));
    const own = join(place.folder, 'tmp');
    mkdirSync(own);
    const child = spawn(process.execPath, [command, 'demo', 'text-to-sql'], {
      cwd: place.folder,
      env: { PATH: process.env['PATH'], HOME: place.folder, TMPDIR: own },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
    const [code] = (await once(child, 'close')) as [number];
    expect(said).toContain('Revenue by city (2025): 6 rows');
    expect(code).toBe(0);
    expect(readdirSync(own).filter((name) => name.startsWith('text-to-sql'))).toEqual([]);
  });

  test('a run that was cut off is run again, and its artifacts are replaced', async () => {
    const { default: agent } = await import('./agent.ts');
    /** Goes no further than its first artifact, once. */
    const halting: Agent = async function* (turn, ctx) {
      for await (const event of agent(turn, ctx)) {
        yield event;
        if (event.type === 'artifact' && ctx.task.attempt === 0) return void (await stopped(ctx));
      }
    };
    const agents = { sql: Object.assign(halting, { resumable: true }) };
    await using log = memoryLog();
    const first = createRunner({ log, agents });
    const turn = { agent: 'sql', task: 't', context: 'c', messageId: 'm' };
    await first.submit({ ...turn, parts: [{ text: QUESTION }] });
    for await (const entry of log.read('t', 0)) if (entry.type === 'artifact') break;
    await first[Symbol.asyncDispose]();
    const before = (await log.get('t')) as Snapshot;
    expect([before.state, before.artifacts.length]).toEqual(['working', 1]);

    await using _ = createRunner({ log, agents });
    for await (const _entry of log.read('t', 0));
    const { state, attempt, artifacts } = (await log.get('t')) as Snapshot;
    expect([state, attempt]).toEqual(['completed', 2]);
    expect(artifacts.map(({ name }) => name)).toEqual(NAMES);
  });

  const stopped = ({ signal }: AgentContext): Promise<unknown> =>
    signal.aborted ? Promise.resolve() : once(signal, 'abort');

  test('over A2A 0.3 the results are a data part, too', async () => {
    const old = new Caller(place.served.url, '0.3');
    const { result } = await old.call('tasks/get', { id: taskIdOf(events) });
    expect(JSON.stringify(result)).toContain('"kind":"data"');
    expect(JSON.stringify(result)).toContain('"resource_type":"parquet"');
  });
});
