import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { JsonObject } from '../../json.ts';
import { projectKey } from '../../wire/transcript.ts';
import {
  archiveSession,
  deleteSession,
  renameSession,
  tagSession,
  unarchiveSession,
} from './edit-session.ts';
import { forkSession } from './fork-session.ts';
import { getSessionInfo, getSessionMessages } from './list-sessions.ts';
import { InMemorySessionStore } from './session-store.ts';
import {
  getSubagentMessages,
  importSessionToStore,
  listSubagents,
} from './subagent-transcripts.ts';

const ID = '22222222-2222-4222-8222-222222222222';

const turn = (n: number, type: 'user' | 'assistant', more: JsonObject = {}): JsonObject => ({
  type,
  uuid: `m${n}`,
  parentUuid: n === 1 ? null : `m${n - 1}`,
  sessionId: ID,
  timestamp: `2026-01-01T00:00:0${n}.000Z`,
  message: { role: type, content: `text ${n}` },
  ...more,
});

const linesOf = (entries: readonly JsonObject[]): string =>
  entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');

/** A session of four messages with one sub-agent, in a configuration folder of its own. */
function sessionOnDisk(): { readonly dir: string; readonly folder: string } {
  const root = mkdtempSync(join(tmpdir(), 'duolane-upkeep-'));
  vi.stubEnv('CLAUDE_CONFIG_DIR', root);
  onTestFinished(() => {
    vi.unstubAllEnvs();
    rmSync(root, { recursive: true });
  });
  const dir = '/srv/project';
  const folder = join(root, 'projects', projectKey(dir));
  mkdirSync(join(folder, ID, 'subagents'), { recursive: true });
  const entries = [turn(1, 'user'), turn(2, 'assistant'), turn(3, 'user'), turn(4, 'assistant')];
  writeFileSync(join(folder, `${ID}.jsonl`), linesOf(entries));
  const agent = [turn(1, 'user', { isSidechain: true }), turn(2, 'assistant', { isMeta: true })];
  writeFileSync(join(folder, ID, 'subagents', 'agent-a1.jsonl'), linesOf(agent));
  return { dir, folder };
}

/** The same session in a store. */
async function sessionInStore(): Promise<{
  readonly dir: string;
  readonly sessionStore: InMemorySessionStore;
}> {
  const { dir } = sessionOnDisk();
  const sessionStore = new InMemorySessionStore();
  await importSessionToStore(ID, sessionStore, { dir });
  return { dir, sessionStore };
}

const PLACES = [
  ['on disk', sessionOnDisk],
  ['in a store', sessionInStore],
] as const;

test.each(PLACES)('a session %s gets a title and a tag, and loses the tag', async (_, open) => {
  const options = await open();
  await renameSession(ID, '  A title ', options);
  await tagSession(ID, 'blue', options);
  expect(await getSessionInfo(ID, options)).toMatchObject({ summary: 'A title', tag: 'blue' });
  await tagSession(ID, null, options);
  expect(await getSessionInfo(ID, options)).not.toHaveProperty('tag');
});

test.each(PLACES)('a fork of a session %s ends at a message and can be forked', async (_, open) => {
  const options = await open();
  const { sessionId } = await forkSession(ID, { ...options, upToMessageId: 'm2' });
  const messages = await getSessionMessages(sessionId, options);
  expect(messages.map(({ message }) => message)).toEqual([
    { role: 'user', content: 'text 1' },
    { role: 'assistant', content: 'text 2' },
  ]);
  expect(messages.map(({ uuid }) => uuid)).not.toContain('m1');
  expect(await getSessionInfo(sessionId, options)).toMatchObject({ summary: 'text 1 (fork)' });
  const again = await forkSession(sessionId, { ...options, title: 'Second' });
  expect(await getSessionMessages(again.sessionId, options)).toHaveLength(2);
  expect(await getSessionMessages(ID, options)).toHaveLength(4);
});

test.each(PLACES)('sub-agents of a session %s are listed and read', async (_, open) => {
  const options = await open();
  expect(await listSubagents(ID, options)).toEqual(['a1']);
  expect(await getSubagentMessages(ID, 'a1', options)).toMatchObject([
    { type: 'user', uuid: 'm1', parent_agent_id: null, message: { content: 'text 1' } },
  ]);
  expect(await getSubagentMessages(ID, 'a2', options)).toEqual([]);
  await expect(getSubagentMessages(ID, '../x', options)).rejects.toMatchObject({ code: 'invalid' });
});

test.each(PLACES)('a session %s is deleted with its sub-agents', async (_, open) => {
  const options = await open();
  await deleteSession(ID, options);
  expect(await getSessionInfo(ID, options)).toBeUndefined();
  await expect(deleteSession(ID, options)).rejects.toMatchObject({ code: 'not_found' });
  if ('folder' in options) expect(existsSync(join(options.folder, ID))).toBe(false);
  else expect(options.sessionStore.size).toBe(0);
});

test('a session is archived by a file beside its transcript', async () => {
  const options = sessionOnDisk();
  expect(await getSessionInfo(ID, options)).not.toHaveProperty('archived');
  await archiveSession(ID, options);
  expect(await getSessionInfo(ID, options)).toMatchObject({ archived: true });
  await unarchiveSession(ID, options);
  expect(await getSessionInfo(ID, options)).toMatchObject({ archived: false });
  expect(readdirSync(join(options.folder, ID))).toContain('archived.json');
  await expect(archiveSession(ID, await sessionInStore())).rejects.toMatchObject({
    code: 'unsupported',
  });
});

test.each<[string, (dir: string) => Promise<unknown>, string]>([
  ['an empty title', (dir) => renameSession(ID, ' ', { dir }), 'invalid'],
  ['an empty tag', (dir) => tagSession(ID, '', { dir }), 'invalid'],
  ['a path as id', (dir) => deleteSession('../x', { dir }), 'invalid'],
  ['an unknown session', (dir) => renameSession('other', 't', { dir }), 'not_found'],
  ['a fork of an unknown session', (dir) => forkSession('other', { dir }), 'not_found'],
  [
    'a fork at an unknown message',
    (dir) => forkSession(ID, { dir, upToMessageId: 'm9' }),
    'not_found',
  ],
  [
    'an import of an unknown session',
    (dir) => importSessionToStore('other', new InMemorySessionStore(), { dir }),
    'not_found',
  ],
])('%s is rejected', async (_, change, code) => {
  const { dir } = sessionOnDisk();
  await expect(change(dir)).rejects.toMatchObject({ code });
});

test('an import without sub-agents leaves them out', async () => {
  const { dir } = sessionOnDisk();
  const store = new InMemorySessionStore();
  await importSessionToStore(ID, store, { dir, includeSubagents: false });
  expect(store.size).toBe(1);
});
