import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../json.ts';
import {
  configDirs,
  keyOfPath,
  parseTranscript,
  projectKey,
  type SessionStoreEntry,
  transcriptBranch,
  transcriptPath,
} from './transcript.ts';

const user = (uuid: string, parentUuid: string | null, content: unknown): SessionStoreEntry => ({
  type: 'user',
  uuid,
  parentUuid,
  message: { role: 'user', content },
});
const assistant = (uuid: string, parentUuid: string, id: string): SessionStoreEntry => ({
  type: 'assistant',
  uuid,
  parentUuid,
  message: { id, role: 'assistant', content: [] },
});
const result = (uuid: string, parentUuid: string): SessionStoreEntry =>
  user(uuid, parentUuid, [{ type: 'tool_result', tool_use_id: uuid }]);
const uuids = (entries: readonly SessionStoreEntry[], at?: string): unknown =>
  transcriptBranch(entries, at)?.map(({ uuid }) => uuid);

test('the configuration folder is CLAUDE_CONFIG_DIR, else one of two in the home folder', () => {
  expect(configDirs({ CLAUDE_CONFIG_DIR: '/c' }, '/home')).toEqual(['/c']);
  expect(configDirs({ CLAUDE_CONFIG_DIR: '' }, '/home')).toEqual([
    join('/home', '.duolane'),
    join('/home', '.claude'),
  ]);
});

test('a path leads to its key and back', () => {
  const key = { projectKey: projectKey('/srv/my app'), sessionId: 's1' };
  const path = transcriptPath('/c', key);
  expect(path).toBe(join('/c', 'projects', '-srv-my-app', 's1.jsonl'));
  expect(keyOfPath(path)).toEqual(key);
  expect(keyOfPath('/c/projects/p/s1/subagents/a.jsonl')).toEqual({
    projectKey: 'p',
    sessionId: 's1',
    subpath: 'subagents/a',
  });
  expect(keyOfPath('/c/other/s1.jsonl')).toBeUndefined();
  expect(() => transcriptPath('/c', { ...key, sessionId: '../x' })).toThrow(
    'invalid session id "../x"',
  );
});

test('invalid lines and half a last line are skipped', () => {
  const line: JsonObject = { type: 'user', uuid: 'a' };
  expect(parseTranscript(`${JSON.stringify(line)}\n\n[1]\n{"type":"us`)).toEqual([line]);
});

describe('a branch', () => {
  test('leads to the given message, or to the last one', () => {
    const entries = [
      user('a', null, 'x'),
      user('b', 'a', 'x'),
      user('c', 'b', 'x'),
      user('d', 'a', 'x'),
    ];
    expect(uuids(entries)).toEqual(['a', 'd']);
    expect(uuids(entries, 'c')).toEqual(['a', 'b', 'c']);
    expect(uuids(entries, 'missing')).toBeUndefined();
    expect(uuids([])).toEqual([]);
  });

  test('keeps all lines of a model message, and their tool results', () => {
    const entries = [
      user('a', null, 'go'),
      assistant('call-1', 'a', 'm1'),
      assistant('call-2', 'call-1', 'm1'),
      result('result-1', 'call-1'),
      result('result-2', 'call-2'),
      assistant('end', 'result-1', 'm2'),
    ];
    expect(uuids(entries)).toEqual(['a', 'call-1', 'call-2', 'result-1', 'result-2', 'end']);
  });

  test('contains nothing after the given message', () => {
    const entries = [
      user('a', null, 'go'),
      assistant('call-1', 'a', 'm1'),
      result('result-1', 'call-1'),
    ];
    expect(uuids(entries, 'call-1')).toEqual(['a', 'call-1']);
  });

  test('skips subagents, and continues before a parent that was lost', () => {
    const entries = [
      user('a', null, 'go'),
      { ...user('side', 'a', 'x'), isSidechain: true },
      assistant('b', 'a', 'm1'),
      user('c', 'lost', 'x'),
      { ...user('side-2', 'c', 'x'), isSidechain: true },
    ];
    expect(uuids(entries)).toEqual(['a', 'b', 'c']);
  });
});
