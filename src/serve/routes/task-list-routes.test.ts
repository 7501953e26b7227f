import { expect, test } from 'vitest';
import type { Agent } from '../../event/types.ts';
import { memoryLog } from '../../task/index.ts';
import type { TaskLog } from '../../task/types.ts';
import { serve } from '../index.ts';

const hello: Agent = async function* () {
  yield { type: 'text.delta', id: 't', delta: 'hello' };
};

interface Page {
  readonly tasks: readonly { readonly task: string; readonly title: string }[];
  readonly after?: string;
  readonly scanned?: number;
}

async function submitted(count: number): Promise<TaskLog> {
  const log = memoryLog();
  for (let i = 0; i < count; i++) {
    const turn = { agent: i % 2 ? 'odd' : 'even', task: `t${i}`, context: `c${i % 3}` };
    await log.submit({ ...turn, messageId: `m${i}`, parts: [{ text: `subject ${i}` }] });
  }
  return log;
}

const list = async (url: string, query: string): Promise<Page> =>
  (await (await fetch(`${url}/api/tasks?${query}`)).json()) as Page;

test('list pages with a cursor have every task once, and filters select by agent, context and state', async () => {
  const log = await submitted(25);
  await using served = await serve(hello, { log, page: false, maxRuns: 0 });
  const seen: string[] = [];
  let after: string | undefined;
  do {
    const page = await list(served.url, `limit=10${after ? `&after=${after}` : ''}`);
    seen.push(...page.tasks.map(({ task }) => task));
    ({ after } = page);
  } while (after !== undefined);
  expect(seen.toSorted()).toEqual(Array.from({ length: 25 }, (_, i) => `t${i}`).toSorted());
  expect((await list(served.url, 'agent=odd')).tasks).toHaveLength(12);
  expect((await list(served.url, 'context=c0')).tasks).toHaveLength(9);
  expect((await list(served.url, 'state=submitted&agent=even')).tasks).toHaveLength(13);
  expect((await list(served.url, 'state=failed')).tasks).toEqual([]);
  const wrong = await fetch(`${served.url}/api/tasks?state=done`);
  expect([wrong.status, await wrong.text()]).toEqual([
    400,
    expect.stringContaining('invalid state \\"done\\": expected one of submitted, working'),
  ]);
});

test('a search looks at a limited number of tasks, says how many, and goes on from there', async () => {
  const log = await submitted(2100);
  await using served = await serve(hello, { log, page: false, maxRuns: 0 });
  const first = await list(served.url, 'q=SUBJECT%207');
  expect(first.tasks.length).toBeGreaterThan(0);
  expect(first.tasks.every(({ title }) => title.startsWith('subject 7'))).toBe(true);
  const none = await list(served.url, 'q=nothing');
  expect(none).toMatchObject({ tasks: [], scanned: 2000, after: expect.any(String) as string });
  expect(await list(served.url, `q=nothing&after=${none.after}`)).toEqual({
    tasks: [],
    scanned: 100,
  });
});

test('one stream has the tasks that change, of the caller alone', async () => {
  await using served = await serve(hello, {
    log: memoryLog(),
    page: false,
    auth: { bearer: { ada: 'alpha', grace: 'gamma' } },
  });
  const as = (secret: string) => ({ authorization: `Bearer ${secret}` });
  const stop = new AbortController();
  const stream = await fetch(`${served.url}/api/changes`, {
    headers: as('alpha'),
    signal: stop.signal,
  });
  const send = (secret: string, text: string): Promise<Response> =>
    fetch(`${served.url}/api/agents/agent/turns`, {
      method: 'POST',
      headers: { ...as(secret), 'content-type': 'application/json' },
      body: JSON.stringify({ text }),
    });
  await send('gamma', 'of grace');
  await send('alpha', 'of ada');
  let text = '';
  const decoder = new TextDecoder();
  for await (const chunk of stream.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (/"state":"completed".*"title":"of ada"/.test(text)) break;
  }
  stop.abort();
  expect(text).toContain('event: head');
  expect(text).not.toContain('of grace');
});

test('the streams of one caller list its changed tasks once for all of them', async () => {
  const log = memoryLog();
  let looks = 0;
  const listed = log.list.bind(log);
  log.list = (query) => {
    if (query.changedAfter !== undefined) looks++;
    return listed(query);
  };
  await using served = await serve(hello, { log, page: false });
  const stop = new AbortController();
  const streams = await Promise.all(
    Array.from({ length: 40 }, () => fetch(`${served.url}/api/changes`, { signal: stop.signal })),
  );
  const seen = streams.map(async ({ body }) => {
    let text = '';
    for await (const chunk of body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      if (/"state":"completed".*"title":"for all"/.test(text)) return;
    }
  });
  await fetch(`${served.url}/api/agents/agent/turns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text: 'for all' }),
  });
  await Promise.all(seen);
  stop.abort();
  expect(looks).toBeLessThan(40);
});

test('a stream of changes ends its subscription with the connection', async () => {
  const log = memoryLog();
  let listeners = 0;
  const onCommit = log.onCommit?.bind(log);
  log.onCommit = (listener) => {
    const off = onCommit?.(listener);
    listeners++;
    return () => {
      listeners--;
      off?.();
    };
  };
  await using served = await serve(hello, { log, page: false });
  const stop = new AbortController();
  const stream = await fetch(`${served.url}/api/changes`, { signal: stop.signal });
  await stream.body?.getReader().read();
  await expect.poll(() => listeners).toBe(1);
  stop.abort();
  await expect.poll(() => listeners).toBe(0);
});
