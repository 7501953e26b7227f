import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { projectKey } from '../../wire/transcript.ts';
import { restoreSession } from './restore-session.ts';
import { InMemorySessionStore } from './session-store.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'duolane-restore-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const read = (...path: string[]): string => readFileSync(join(...path), 'utf8');

async function restored(
  env: Readonly<Record<string, string>>,
  cwd: string,
  parts: readonly string[] = [],
): Promise<AsyncDisposable & { readonly configDir: string }> {
  const store = new InMemorySessionStore();
  const key = { projectKey: projectKey(cwd), sessionId: 's' };
  await store.append(key, [{ n: 1 }, { n: 2 }]);
  for (const subpath of parts) await store.append({ ...key, subpath }, [{ subpath }]);
  return restoreSession(store, { cwd, sessionId: 's', timeoutMs: 10_000, env });
}

test('a restored session has the settings and the login of the user, and no refresh token', async () => {
  const usual = folder();
  const cwd = folder();
  mkdirSync(join(usual, 'skills', 'sum'), { recursive: true });
  mkdirSync(join(usual, 'projects', 'other'), { recursive: true });
  writeFileSync(join(usual, 'skills', 'sum', 'SKILL.md'), 'adds');
  for (const name of ['settings.json', 'CLAUDE.md']) writeFileSync(join(usual, name), name);
  writeFileSync(join(usual, '.claude.json'), '{"account":"ann"}');
  const login = { accessToken: 'a', refreshToken: 'r', expiresAt: 1 };
  writeFileSync(join(usual, '.credentials.json'), JSON.stringify({ claudeAiOauth: login }));
  const session = await restored({ CLAUDE_CONFIG_DIR: usual }, cwd);
  const { configDir } = session;
  expect(read(configDir, 'projects', projectKey(cwd), 's.jsonl')).toBe('{"n":1}\n{"n":2}\n');
  expect(() => statSync(join(configDir, 'projects', 'other'))).toThrow('ENOENT');
  expect(read(configDir, 'skills', 'sum', 'SKILL.md')).toBe('adds');
  for (const name of ['settings.json', 'CLAUDE.md']) expect(read(configDir, name)).toBe(name);
  expect(read(configDir, '.claude.json')).toBe('{"account":"ann"}');
  expect(JSON.parse(read(configDir, '.credentials.json'))).toEqual({
    claudeAiOauth: { accessToken: 'a', expiresAt: 1 },
  });
  expect(statSync(join(configDir, '.credentials.json')).mode & 0o777).toBe(0o600);
  expect(statSync(configDir).mode & 0o777).toBe(0o700);
  await session[Symbol.asyncDispose]();
  expect(() => statSync(configDir)).toThrow('ENOENT');
  expect(read(usual, 'skills', 'sum', 'SKILL.md')).toBe('adds');
  expect(read(usual, '.credentials.json')).toContain('refreshToken');
});

test('without CLAUDE_CONFIG_DIR, both are taken from the home of the CLI', async () => {
  const home = folder();
  mkdirSync(join(home, '.claude'));
  writeFileSync(join(home, '.claude', 'settings.json'), '{}');
  writeFileSync(join(home, '.claude.json'), '{"n":1}');
  await using session = await restored({ HOME: home }, folder());
  expect(read(session.configDir, 'settings.json')).toBe('{}');
  expect(read(session.configDir, '.claude.json')).toBe('{"n":1}');
});

test('a restored session has the parts of its subagents, and none outside of its folder', async () => {
  const [cwd, usual] = [folder(), folder()];
  const parts = ['subagents/agent-1', '../../escape', '/etc/x', 'a//b', 'a\\b'];
  await using session = await restored({ CLAUDE_CONFIG_DIR: usual }, cwd, parts);
  const project = join(session.configDir, 'projects', projectKey(cwd));
  expect(read(project, 's', 'subagents', 'agent-1.jsonl')).toContain('agent-1');
  expect(() => statSync(join(session.configDir, 'projects', 'escape.jsonl'))).toThrow('ENOENT');
});

test('a session is found from a working directory that is a link', async () => {
  const [cwd, usual] = [folder(), folder()];
  const link = join(folder(), 'link');
  symlinkSync(cwd, link);
  const store = new InMemorySessionStore();
  await store.append({ projectKey: projectKey(cwd), sessionId: 's' }, [{ n: 1 }]);
  const options = { cwd: link, sessionId: 's', timeoutMs: 10_000 };
  await using session = await restoreSession(store, { ...options, env: { HOME: usual } });
  expect(read(session.configDir, 'projects', projectKey(cwd), 's.jsonl')).toBe('{"n":1}\n');
});
