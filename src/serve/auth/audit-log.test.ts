import {
  type FileHandle,
  mkdtemp,
  open as openFile,
  readFile,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { connectA2A } from '../../a2a/index.ts';
import type { Agent } from '../../event/types.ts';
import { memoryLog } from '../../task/memory/memory-log.ts';
import { type AuditRecord, openAudit } from './audit-log.ts';
import { serve, type Served } from '../serve.ts';
import type { ServeOptions } from '../types.ts';

/** Asks once for an approval. */
const asks: Agent = async function* (_turn, ctx) {
  const { action } = await ctx.ask({
    id: 'q1',
    kind: 'approval',
    message: 'Delete everything?',
  });
  yield { type: 'text.delta', id: 't', delta: action };
};
const SILENT = { debug() {}, info() {}, warn() {}, error() {} };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-audit-'));
});
afterAll(() => rm(folder, { recursive: true }));

const read = async (file: string): Promise<readonly AuditRecord[]> =>
  (await readFile(file, 'utf8'))
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as AuditRecord);

const open = (options: ServeOptions): Promise<Served> =>
  serve(asks, {
    log: memoryLog(),
    logger: SILENT,
    graceMs: 10,
    auth: { bearer: { ada: 'alpha', bob: 'beta' } },
    operators: ['bob'],
    ...options,
  });

const post = (url: string, body: unknown, headers: Record<string, string>): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

/** A task of Ada that waits for an answer. */
async function waiting({ url, log }: Served): Promise<string> {
  const begun = await post(`${url}/api/agents/agent/turns`, { text: 'go' }, bearer('alpha'));
  const { task } = (await begun.json()) as { task: string };
  await expect.poll(async () => (await log.get(task))?.pending.length).toBe(1);
  return task;
}

describe('the audit log', () => {
  test('records who answered what and the outcome, whichever protocol was used', async () => {
    const file = join(folder, 'answers', 'audit.jsonl');
    await using served = await open({ audit: { file } });
    const answers = [{ id: 'q1', action: 'decline' }];
    const first = await waiting(served);
    const page = `${served.url}/api/tasks/${first}/turns`;
    expect((await post(page, { answers, messageId: 'm1' }, bearer('alpha'))).status).toBe(201);
    const second = await waiting(served);
    await using client = await connectA2A(served.url, { headers: bearer('alpha') });
    await client.send('yes', { taskId: second });
    const unknown = `${served.url}/api/tasks/${second}/turns`;
    expect((await post(unknown, { answers }, bearer('alpha'))).ok).toBe(false);
    await expect.poll(() => read(file)).toHaveLength(3);
    const records = await read(file);
    expect(records[0]).toEqual({
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
      kind: 'answer',
      actor: 'ada',
      action: 'decline',
      object: { task: first, question: 'q1', agent: 'agent', message: 'm1' },
      outcome: 'done',
    });
    expect(records[1]).toMatchObject({
      action: 'accept',
      object: { task: second },
      outcome: 'done',
    });
    expect(records[2]).toMatchObject({ outcome: 'refused', details: { code: 'conflict' } });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  });

  test('records sign-ins, sign-outs and the number of refused sign-ins', async () => {
    const file = join(folder, 'sessions.jsonl');
    await using served = await open({ audit: { file } });
    const session = `${served.url}/api/session`;
    await post(session, {}, bearer('wrong'));
    const signIn = await post(session, {}, bearer('alpha'));
    const cookie = signIn.headers.get('set-cookie')?.split(';')[0] ?? '';
    await fetch(session, { method: 'DELETE', headers: { cookie } });
    await expect.poll(() => read(file)).toHaveLength(3);
    const short = (await read(file)).map(({ kind, actor, outcome, details }) => [
      kind,
      actor,
      outcome,
      details,
    ]);
    expect(short).toEqual([
      ['sign-in', '', 'refused', { status: 401 }],
      ['sign-in', 'ada', 'done', undefined],
      ['sign-out', 'ada', 'done', undefined],
    ]);
  });

  test('only operators read it, complete or since a time', async () => {
    const file = join(folder, 'read.jsonl');
    await using served = await open({ audit: { file, required: true } });
    await served.audit({
      kind: 'policy',
      actor: 'ada',
      action: 'deny',
      object: {},
      outcome: 'done',
    });
    const get = (query: string, token: string): Promise<Response> =>
      fetch(`${served.url}/api/audit${query}`, { headers: bearer(token) });
    expect((await get('', 'alpha')).status).toBe(403);
    expect(await (await get('', 'beta')).text()).toBe(await readFile(file, 'utf8'));
    expect(await (await get('?since=2020-01-01', 'beta')).text()).toContain('"policy"');
    expect(await (await get('?since=2999-01-01', 'beta')).text()).toBe('');
    expect((await get('?since=soon', 'beta')).status).toBe(400);
  });

  test('records no answer without its question, and none twice', async () => {
    const file = join(folder, 'counts.jsonl');
    await using served = await open({ audit: { file } });
    const task = await waiting(served);
    const turns = `${served.url}/api/tasks/${task}/turns`;
    const first = `${served.url}/api/agents/agent/turns`;
    const accept = { id: 'q1', action: 'accept' };
    const refused: [string, readonly object[]][] = [
      [turns, [{ ...accept, id: 'another' }]],
      [turns, [{ ...accept, action: 'decline' }, accept]],
      [first, [accept]], // before it is asked
    ];
    for (const [url, answers] of refused)
      expect((await post(url, { text: 'x', answers }, bearer('alpha'))).status).toBe(400);
    expect((await served.log.get(task))?.pending).toHaveLength(1);
    expect((await post(turns, { answers: [accept] }, bearer('alpha'))).status).toBe(201);
    await expect.poll(() => read(file)).toHaveLength(5);
    const outcomes = (await read(file)).map(({ action, outcome }) => `${action} ${outcome}`);
    expect(outcomes.filter((each) => each.endsWith(' done'))).toEqual(['accept done']);
  });

  describe('says who tried to answer what is not theirs, or not open', () => {
    const accept = { id: 'q1', action: 'accept' };
    const send = (task: string, part: object): object => ({
      message: { messageId: 'm1', role: 'ROLE_USER', taskId: task, parts: [part] },
    });
    const approval = { state: 'approval-responded', approval: { id: 'q1', approved: true } };

    test.each<[string, (task: string) => readonly [path: string, body: object]]>([
      ['the page', (task) => [`/api/tasks/${task}/turns`, { answers: [accept], messageId: 'm1' }]],
      ['A2A', (task) => ['/a2a/agent/message:send', send(task, { data: { answers: [accept] } })]],
      ['A2A as text', (task) => ['/a2a/agent/message:send', send(task, { text: 'approve' })]],
      [
        'the AI SDK',
        (task) => [
          '/ui/agent',
          { id: 'chat', messages: [{ role: 'assistant', id: `${task}.1`, parts: [approval] }] },
        ],
      ],
      [
        'AG-UI',
        (task) => [
          '/ag-ui/agent',
          { threadId: task, runId: 'm1', resume: [{ interruptId: 'q1', payload: true }] },
        ],
      ],
    ])('a stranger by %s', async (_, request) => {
      const records: AuditRecord[] = [];
      await using served = await open({ audit: { sink: (record) => void records.push(record) } });
      const task = await waiting(served);
      const [path, body] = request(task);
      expect((await post(`${served.url}${path}`, body, bearer('beta'))).ok).toBe(false);
      expect(records).toMatchObject([
        {
          kind: 'answer',
          actor: 'bob',
          outcome: 'refused',
          details: {
            code: path.startsWith('/a') && !path.startsWith('/ag') ? 'not_found' : 'invalid',
          },
        },
      ]);
      expect(Object.values(records[0]?.object ?? {})).toContain(task);
      expect((await served.log.get(task))?.pending).toHaveLength(1);
    });

    test.each([
      ['a question that is not open', { data: { answers: [{ ...accept, id: 'q2' }] } }, 'q2'],
      ['words that decide nothing', { text: 'maybe later' }, undefined],
      ['an answer that came too late', { data: { answers: [accept] } }, 'q1'],
    ])('the owner by A2A: %s', async (what, part, question) => {
      const records: AuditRecord[] = [];
      await using served = await open({ audit: { sink: (record) => void records.push(record) } });
      const task = await waiting(served);
      if (what.endsWith('too late')) await served.log.requestCancel(task);
      const url = `${served.url}/a2a/agent/message:send`;
      expect((await post(url, send(task, part), bearer('alpha'))).status).toBe(400);
      const found = records.map(({ actor, outcome, object }) => [
        actor,
        outcome,
        object['question'],
      ]);
      expect(found).toEqual(question === undefined ? [] : [['ada', 'refused', question]]);
    });
  });

  test.each([false, true])('is not filled by one request (required: %s)', async (required) => {
    const records: AuditRecord[] = [];
    const sink = (record: AuditRecord): void => void records.push(record);
    await using served = await open({ audit: { sink, required } });
    const answers = Array.from({ length: 5000 }, (_, i) => ({ id: `q${i}`, action: 'accept' }));
    const turns = `${served.url}/api/agents/agent/turns`;
    const messageId = 'm'.repeat(100_000);
    const response = await post(turns, { messageId, answers }, bearer('alpha'));
    expect(response.status).toBe(400);
    expect(records).toHaveLength(10);
    expect(records.at(-1)?.details).toEqual({ code: 'invalid', omitted: 4990 });
    expect(JSON.stringify(records).length).toBeLessThan(10_000);
  });

  test('accepts the records of others while one caller floods it', async () => {
    let release = (): void => {};
    const gate = new Promise<void>((resolve) => (release = resolve));
    const kept: string[] = [];
    const sink = async ({ actor }: AuditRecord): Promise<void> => {
      kept.push(actor);
      await gate;
    };
    const audit = await openAudit({ sink }, undefined, SILENT);
    const record = (actor: string): Promise<void> =>
      audit.record({ kind: 'answer', actor, action: '', object: {}, outcome: 'refused' });
    for (let n = 0; n < 5000; n++) await record('eve');
    await record('ada');
    expect(kept.filter((actor) => actor === 'eve')).toHaveLength(500);
    expect(kept).toContain('ada');
    release();
    await audit[Symbol.asyncDispose]();
  });

  test('a record that cannot be written is logged, and the request continues', async () => {
    const logged: unknown[] = [];
    const logger = { ...SILENT, error: (...args: unknown[]) => logged.push(args) };
    const sink = (): never => {
      throw new Error('the disk is full');
    };
    await using served = await open({ logger, audit: { sink } });
    const task = await waiting(served);
    const answers = [{ id: 'q1', action: 'accept' }];
    const answered = await post(
      `${served.url}/api/tasks/${task}/turns`,
      { answers },
      bearer('alpha'),
    );
    expect(answered.status).toBe(201);
    expect(JSON.stringify(logged)).toContain('the disk is full');
    expect(JSON.stringify(logged)).toContain('"question":"q1"');
  });

  test('starts a new line after a write that failed in the middle of one', async () => {
    const file = join(folder, 'torn.jsonl');
    const audit = await openAudit({ file }, undefined, SILENT);
    await using other = await openFile(join(folder, 'other'), 'w');
    const handles = Object.getPrototypeOf(other) as Pick<FileHandle, 'appendFile'>;
    const { appendFile } = handles;
    const failing = vi.spyOn(handles, 'appendFile').mockImplementationOnce(async function (
      this: FileHandle,
      line,
    ) {
      await appendFile.call(this, String(line).slice(0, 20));
      throw new Error('the disk is full');
    });
    try {
      const entry = { kind: 'policy', actor: 'ada', action: 'deny', object: {}, outcome: 'done' };
      await audit.record({ ...entry, actor: 'lost' });
      await audit.record(entry);
      await audit[Symbol.asyncDispose]();
    } finally {
      failing.mockRestore();
    }
    const [torn, whole, end] = (await readFile(file, 'utf8')).split('\n');
    expect(torn).toHaveLength(20);
    expect(JSON.parse(whole ?? '')).toMatchObject({ actor: 'ada', action: 'deny' });
    expect(end).toBe('');
  });

  test('answers and sign-ins are refused if a required record fails', async () => {
    const sink = async (): Promise<never> => {
      throw new Error('the disk is full');
    };
    await using served = await open({ audit: { sink, required: true } });
    const task = await waiting(served);
    const answers = [{ id: 'q1', action: 'accept' }];
    const answered = await post(
      `${served.url}/api/tasks/${task}/turns`,
      { answers },
      bearer('alpha'),
    );
    expect(answered.status).toBe(503);
    expect((await served.log.get(task))?.pending).toHaveLength(1);
    const signIn = await post(`${served.url}/api/session`, {}, bearer('alpha'));
    expect([signIn.status, signIn.headers.get('set-cookie')]).toEqual([503, null]);
  });

  test('of a flood of refused sign-ins only the number is recorded', async () => {
    let now = 0;
    const records: AuditRecord[] = [];
    const audit = await openAudit(
      { sink: (record) => void records.push(record) },
      undefined,
      SILENT,
      () => now,
    );
    const refuse = () =>
      audit.record({ kind: 'sign-in', actor: '', action: '', object: {}, outcome: 'refused' });
    for (let n = 0; n < 5000; n++) await refuse();
    expect(records).toHaveLength(100);
    now = 1000;
    await refuse();
    expect(records.at(-1)?.details).toEqual({ suppressed: 4900 });
  });

  test.each([
    [{ file: 'a', sink: () => {} }, 'audit has both "file" and "sink"'],
    [{ file: '/dev/null/audit.jsonl' }, 'cannot write the audit log'],
    [{ sink: 'a' }, 'invalid audit.sink'],
    [{ file: '' }, 'invalid audit.file'],
  ])('%j is refused', async (audit, message) => {
    await expect(open({ audit: audit as never })).rejects.toThrow(message);
  });
});

test('a record after the half line of a crashed process is on a line of its own', async () => {
  const file = join(folder, 'torn.jsonl');
  await writeFile(file, '{"at":"2026-01-01T00:00:00.000Z","kind":"sig');
  const audit = await openAudit({ file }, undefined, SILENT);
  const entry = { kind: 'sign-in', actor: 'ada', action: 'sign-in', object: {}, outcome: 'done' };
  await audit.record(entry as never);
  await audit[Symbol.asyncDispose]();
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  expect(lines.length).toBe(2);
  expect(JSON.parse(lines[1] ?? '')).toMatchObject({ actor: 'ada' });
});

test('a clock that is set back omits no refused sign-in', async () => {
  const file = join(folder, 'clock.jsonl');
  let now = Date.UTC(2026, 0, 1);
  const audit = await openAudit({ file }, undefined, SILENT, () => now);
  const entry = { kind: 'sign-in', actor: '', action: 'sign-in', object: {}, outcome: 'refused' };
  await audit.record(entry as never);
  now -= 3_600_000;
  await audit.record(entry as never);
  await audit[Symbol.asyncDispose]();
  expect((await read(file)).length).toBe(2);
});
