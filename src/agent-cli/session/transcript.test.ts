import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { transcriptBranch } from '../../wire/transcript.ts';
import { History } from './history.ts';
import type { Block } from '../models/types.ts';
import {
  type TranscriptEntry,
  findSession,
  sessionDir,
  readEntries,
  historyFrom,
  Transcript,
} from './transcript.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'duolane-session-'));
});
afterEach(async () => rm(folder, { recursive: true, force: true }));

const open = (file: string, mirror?: (entries: readonly TranscriptEntry[]) => void): Transcript =>
  new Transcript({ file, sessionId: 's', cwd: folder, persist: true, mirror });
const call = (id: string): Block => ({ type: 'tool_use', id, name: 't', input: {} });
const result = (id: string): Block => ({ type: 'tool_result', tool_use_id: id, content: id });

test('what was appended is read back, in order, and mirrored', async () => {
  const file = join(folder, 'a', 'b.jsonl');
  const mirrored: TranscriptEntry[] = [];
  const transcript = open(file, (entries) => mirrored.push(...entries));
  transcript.append('user', [{ message: { role: 'user', content: 'hello' }, uuid: 'u1' }]);
  const message = { id: 'm1', role: 'assistant', content: [{ type: 'text', text: 'hi' }] };
  transcript.append('assistant', [{ message, uuid: 'u2' }]);
  await transcript.saved();
  await transcript[Symbol.asyncDispose]();
  const entries = await readEntries(file);
  expect(entries).toEqual(mirrored);
  expect(entries.map(({ uuid, parentUuid }) => [uuid, parentUuid])).toEqual([
    ['u1', null],
    ['u2', 'u1'],
  ]);
  expect(historyFrom(entries).messages()).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'hello' }] },
    { role: 'assistant', content: [{ type: 'text', text: 'hi' }] },
  ]);
});

test('a crash at any byte costs at most the last line, and what follows is whole', async () => {
  const file = join(folder, 'x.jsonl');
  const first = open(file);
  for (const uuid of ['u1', 'u2', 'u3'])
    first.append('user', [{ message: { role: 'user', content: uuid }, uuid }]);
  await first[Symbol.asyncDispose]();
  const text = await readFile(file, 'utf8');
  await fc.assert(
    fc.asyncProperty(fc.nat(text.length), async (cut) => {
      const torn = join(folder, `${cut}-${Math.random()}.jsonl`);
      await appendFile(torn, text.slice(0, cut));
      const kept = await readEntries(torn);
      expect(kept.map(({ uuid }) => uuid)).toEqual(['u1', 'u2', 'u3'].slice(0, kept.length));
      const next = open(torn);
      next.continueFrom(kept, { copy: false });
      next.append('user', [{ message: { role: 'user', content: 'after' }, uuid: 'u4' }]);
      await next[Symbol.asyncDispose]();
      expect(transcriptBranch(await readEntries(torn))?.map(({ uuid }) => uuid)).toEqual([
        ...kept.map(({ uuid }) => uuid),
        'u4',
      ]);
    }),
    { numRuns: 30 },
  );
});

test('a file that cannot be written makes saved() throw, and only that', async () => {
  const transcript = open('/dev/full');
  transcript.append('user', [{ message: { role: 'user', content: 'x' } }]);
  await expect(transcript.saved()).rejects.toThrow('could not be saved');
  transcript.append('user', [{ message: { role: 'user', content: 'y' } }]);
  await transcript[Symbol.asyncDispose]();
});

test('a branch leads from the first message to the one asked for', () => {
  const entry = (uuid: string, parentUuid: string | null): TranscriptEntry => ({
    type: 'user',
    uuid,
    parentUuid,
    message: { role: 'user' },
  });
  const entries = [entry('a', null), entry('b', 'a'), entry('c', 'b'), entry('d', 'a')];
  const ids = (at?: string): string[] | undefined =>
    transcriptBranch(entries, at)?.map(({ uuid }) => uuid);
  expect(ids()).toEqual(['a', 'd']);
  expect(ids('c')).toEqual(['a', 'b', 'c']);
  expect(ids('nowhere')).toBeUndefined();
  expect(transcriptBranch([])).toEqual([]);
});

test('in whatever order results come, each call is followed by its result before anything else', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(['a', 'b', 'c', 'd']), fc.boolean(), (order, early) => {
      const conversation = new History();
      conversation.addUser('go');
      for (const id of ['a', 'b', 'c', 'd']) {
        conversation.addAnswer('m1', call(id));
        // A tool may be done before the answer is.
        if (early && order[0] === id) conversation.addResult(result(id));
      }
      for (const id of order) conversation.addResult(result(id));
      conversation.addUser('next');
      const [, answer, user] = conversation.messages();
      expect(answer?.content).toHaveLength(4);
      expect(
        ((user?.content ?? []) as Block[]).map((block) => block['tool_use_id'] ?? block['text']),
      ).toEqual(['a', 'b', 'c', 'd', 'next']);
      expect(conversation.openCalls().map(({ id }) => id)).toEqual(
        ['a', 'b', 'c', 'd'].filter((id) => !order.includes(id)),
      );
    }),
  );
});

test('a result without a call is refused, and a model message can be dropped', () => {
  const conversation = new History();
  conversation.addAnswer('m1', call('a'));
  expect([
    conversation.addResult(result('x')),
    conversation.addResult(result('a')),
    conversation.addResult(result('a')),
  ]).toEqual([false, true, false]);
  conversation.dropAnswer('m1');
  expect(conversation.messages()).toEqual([]);
});

test('a session id is one file name: a path to another folder is not found', async () => {
  const place = { configDir: folder, cwd: '/project' };
  await mkdir(sessionDir(place), { recursive: true });
  await writeFile(join(sessionDir(place), 'known.jsonl'), '');
  await writeFile(join(folder, 'outside.jsonl'), '');
  expect(await findSession(place, 'known')).toBe(join(sessionDir(place), 'known.jsonl'));
  for (const id of ['../../outside', '..\\..\\outside', join(folder, 'outside'), 'known\0'])
    expect(await findSession(place, id)).toBeUndefined();
});
