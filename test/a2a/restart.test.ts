import { mkdtemp, rm } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { connectA2A } from '../../src/a2a/index.ts';
import { compareIds } from '../../src/event/index.ts';
import { verifies } from '../verifies.ts';
import { startServer } from './server-process.ts';
import { all, Caller, taskIdOf, textOf, wordOf, type Seen } from './support.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-a2a-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const whole = Array.from({ length: 60 }, (_, n) => `w${n} `).join('');

const checkOrder = (events: readonly Seen[]): void => {
  for (const [i, { id }] of events.entries())
    if (i > 0) expect(compareIds(events[i - 1]!.id, id)).toBeLessThan(0);
};

/** Reads until the server dies, then goes on with the next one on the same file and port. */
async function killMidStream(kind: 'plain' | 'resumable' | 'continues'): Promise<readonly Seen[]> {
  const file = join(folder, `${kind}.sqlite`);
  const first = await startServer(file, kind);
  const caller = new Caller(first.url);
  const seen: Seen[] = [];
  try {
    for await (const event of caller.say('go')) {
      seen.push(event);
      if (seen.length === 15) void first.stop('SIGKILL');
    }
  } catch {
    // the wire broke
  }
  await first.stop('SIGKILL');
  await using second = await startServer(file, kind, first.port);
  expect(second.url).toBe(first.url);
  const rest = await all(caller.subscribe(taskIdOf(seen), seen.at(-1)!.id));
  const events = [...seen, ...rest];
  // What a newcomer reads from the beginning is what this client got in two pieces.
  expect(await all(caller.subscribe(taskIdOf(seen), '0'))).toEqual(events);
  return events;
}

verifies(
  ['S191', 'S193', 'S197', 'S130', 'S192'],
  'a server killed during a stream loses and repeats nothing: the task fails, continues or starts again after the restart',
  async () => {
    const [plain, continues, resumable] = await Promise.all([
      killMidStream('plain'),
      killMidStream('continues'),
      killMidStream('resumable'),
    ]);
    for (const [events, end] of [
      [plain, 'failed'],
      [continues, 'completed'],
      [resumable, 'completed'],
    ] as const) {
      checkOrder(events);
      expect(wordOf(events.at(-1)!)).toBe(end);
      expect(events.filter((event) => wordOf(event) === end)).toHaveLength(1);
    }
    expect(whole.startsWith(textOf(plain))).toBe(true);
    expect(textOf(continues)).toBe(whole);
    expect(textOf(resumable)).toBe(whole);
  },
);

verifies(
  ['S131', 'S191', 'S193'],
  'our client continues its stream after a restart of the server',
  async () => {
    const file = join(folder, 'tasks.sqlite');
    const first = await startServer(file, 'continues');
    const client = await connectA2A(first.url);
    const stream = client.stream('go', { retryMs: 20 });
    let restarted: Promise<AsyncDisposable> | undefined;
    for await (const event of stream)
      if ('artifactUpdate' in event)
        restarted ??= first.stop('SIGKILL').then(() => startServer(file, 'continues', first.port));
    await using second = (await restarted)!;
    expect(second).toBeDefined();
    expect(stream.text).toBe(whole);
    expect(stream.status?.state).toBe('TASK_STATE_COMPLETED');
  },
);

verifies(
  'S130',
  'a drain ends every stream with a final event or a time to reconnect',
  async () => {
    for (const kind of ['plain', 'continues'] as const) {
      const file = join(folder, `${kind}.sqlite`);
      await using server = await startServer(file, kind);
      const caller = new Caller(server.url);
      const response = await caller.post('SendStreamingMessage', caller.message('go'));
      let text = '';
      const decoder = new TextDecoder();
      let stopped: Promise<void> | undefined;
      for await (const chunk of response.body ?? []) {
        text += decoder.decode(chunk, { stream: true });
        if (text.includes('w3 ')) stopped ??= server.stop('SIGTERM');
      }
      await stopped;
      if (kind === 'plain') expect(text).toContain('TASK_STATE_FAILED');
      else expect(text).toMatch(/retry: \d+\n\n$/);
    }
  },
);

test('a client that stops reading costs the server little memory, and can resume', async () => {
  await using server = await startServer(join(folder, 'tasks.sqlite'), 'flood');
  const caller = new Caller(server.url);
  // Once without a reader, so that what the run itself costs is not counted.
  await caller.call('SendMessage', caller.message('go'));
  const before = await server.rss();
  const body = { jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage' };
  const sent = request(caller.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'a2a-version': '1.0' },
  });
  sent.end(JSON.stringify({ ...body, params: caller.message('go') }));
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const [first] = (await once(response, 'data')) as [Buffer];
  response.pause();
  const [, id = ''] = /"task":\{"id":"([^"]+)"/.exec(first.toString()) ?? [];
  const done = async (): Promise<string> => JSON.stringify(await caller.call('GetTask', { id }));
  await expect.poll(done, { timeout: 110_000, interval: 500 }).toContain('TASK_STATE_COMPLETED');
  const grown = (await server.rss()) - before;
  // It was sent 150 MB; what a garbage collector has not got round to is far less.
  expect(grown / 2 ** 20).toBeLessThan(75);
  sent.destroy();
  let rest = 0;
  for await (const event of caller.subscribe(id, '3')) rest += JSON.stringify(event).length;
  expect(rest).toBeGreaterThan(2390 * 64 * 1024);
});
