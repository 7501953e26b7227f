import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { listSessions } from '../../src/host/index.ts';
import type { JsonObject } from '../../src/json.ts';
import { type AgentSdk, scenarios } from './drivers.ts';

const DIR = '/duolane/project';
const at = (day: number): string => `2026-01-0${day}T00:00:00.000Z`;
const id = (n: number): string => `0000000${n}-1111-4111-8111-111111111111`;
const text = (said: string): JsonObject[] => [{ type: 'text', text: said }];
const use = (call: string): JsonObject[] => [{ type: 'tool_use', id: call, name: 't', input: {} }];
const result = (call: string): JsonObject[] => [
  { type: 'tool_result', tool_use_id: call, content: 'done' },
];

/** One entry of a transcript; its uuid is a letter. */
const entry = (
  type: 'user' | 'assistant',
  uuid: string,
  parentUuid: string | null,
  content: unknown,
  more: JsonObject = {},
): JsonObject => ({
  type,
  uuid,
  parentUuid,
  isSidechain: false,
  timestamp: at(2),
  cwd: DIR,
  gitBranch: 'main',
  message: { role: type, content, ...(type === 'assistant' && { id: `msg_${uuid}` }) },
  ...more,
});

/** What CLIs leave behind, each in a file of its own. */
const FILES: readonly (readonly JsonObject[])[] = [
  [],
  // A prompt that was asked again: the first answer is on a branch that was left.
  [
    { type: 'queue-operation', timestamp: at(1) },
    entry('user', 'a', null, 'one'),
    entry('assistant', 'b', 'a', text('first')),
    entry('user', 'c', 'b', 'two'),
    entry('assistant', 'd', 'c', text('left')),
    entry('user', 'e', 'b', 'two again'),
    entry('assistant', 'f', 'e', text('kept')),
  ],
  // Two tools of one answer, which is two lines of the file: each result hangs on its call.
  [
    entry('user', 'a', null, 'both'),
    entry('assistant', 'b', 'a', use('t1')),
    {
      ...entry('assistant', 'c', 'b', use('t2')),
      message: { role: 'assistant', id: 'msg_b', content: use('t2') },
    },
    entry('user', 'd', 'b', result('t1')),
    entry('user', 'e', 'c', result('t2')),
    entry('assistant', 'f', 'e', text('done')),
  ],
  // What was before a compaction has become its summary.
  [
    entry('user', 'a', null, 'long ago'),
    entry('assistant', 'b', 'a', text('said')),
    { type: 'system', subtype: 'compact_boundary', uuid: 'k', parentUuid: null, timestamp: at(2) },
    entry('user', 'c', 'k', 'in short', { isCompactSummary: true }),
    entry('assistant', 'd', 'c', text('go on')),
  ],
  [
    entry('user', 'a', null, '<command-name>/clear</command-name>'),
    entry('user', 'b', 'a', `long\n${'x'.repeat(300)}`),
    { type: 'tag', tag: 'red' },
  ],
  [entry('user', 'a', null, 'plain'), { type: 'ai-title', aiTitle: 'By the model' }],
  // Not listed as sessions: a file without a prompt, and one of a sub-agent.
  [],
  [entry('user', 'a', null, 'of a subagent', { isSidechain: true })],
];

interface Reader {
  listSessions: typeof listSessions;
  getSessionInfo(sessionId: string, options: object): Promise<JsonObject | undefined>;
  getSessionMessages(sessionId: string, options: object): Promise<JsonObject[]>;
}

scenarios('transcripts', (sdk: AgentSdk) => {
  const reader = sdk as unknown as Reader;
  const before = process.env['CLAUDE_CONFIG_DIR'];
  let config = '';

  beforeAll(async () => {
    config = await mkdtemp(join(tmpdir(), 'duolane-files-'));
    process.env['CLAUDE_CONFIG_DIR'] = config;
    const folder = join(config, 'projects', DIR.replaceAll('/', '-'));
    await mkdir(folder, { recursive: true });
    for (const [n, entries] of FILES.entries()) {
      const lines = entries.map((each) => `${JSON.stringify({ ...each, sessionId: id(n) })}\n`);
      if (n > 0) await writeFile(join(folder, `${id(n)}.jsonl`), lines.join(''));
    }
    await writeFile(
      join(folder, 'agent-1.jsonl'),
      `${JSON.stringify(entry('user', 'a', null, 'x'))}\n`,
    );
  });

  afterAll(async () => {
    if (before === undefined) delete process.env['CLAUDE_CONFIG_DIR'];
    else process.env['CLAUDE_CONFIG_DIR'] = before;
    await rm(config, { recursive: true });
  });

  const messages = async (n: number): Promise<unknown> =>
    (await reader.getSessionMessages(id(n), { dir: DIR })).map(({ uuid }) => uuid).join('');

  test('transcripts with messages are listed', async () => {
    const listed = await reader.listSessions({ dir: DIR });
    expect(listed.map(({ sessionId }) => sessionId).toSorted()).toEqual([1, 2, 3, 4, 5].map(id));
    expect(await reader.getSessionInfo(id(6), { dir: DIR })).toBeUndefined();
    expect(await reader.getSessionInfo(id(7), { dir: DIR })).toBeUndefined();
  });

  test('the messages are those of the current branch', async () => {
    expect(await messages(1)).toBe('abef');
    expect(await messages(2)).toBe('abcdef');
    expect(await messages(3)).toBe('cd');
    expect(await messages(4)).toBe('ab');
    expect(await messages(7)).toBe('');
    const [first] = await reader.getSessionMessages(id(1), { dir: DIR });
    expect(first).toMatchObject({ type: 'user', session_id: id(1), timestamp: at(2) });
  });

  test('the information about a session', async () => {
    const info = (n: number): Promise<JsonObject | undefined> =>
      reader.getSessionInfo(id(n), { dir: DIR });
    expect(await info(1)).toMatchObject({
      summary: 'one',
      firstPrompt: 'one',
      createdAt: Date.parse(at(1)),
      cwd: DIR,
      gitBranch: 'main',
    });
    const long = `long ${'x'.repeat(195)}…`;
    expect(await info(4)).toMatchObject({ summary: long, firstPrompt: long, tag: 'red' });
    expect(await info(5)).toMatchObject({ summary: 'By the model', firstPrompt: 'plain' });
    expect(Number.isInteger((await info(5))?.['lastModified'])).toBe(true);
  });
});
