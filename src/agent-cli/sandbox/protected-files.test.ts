import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { suite } from '../../../test/verifies.ts';
import { isHarmlessGitConfig } from './git-config.ts';
import { ProtectedFiles } from './protected-files.ts';

let root: string;
beforeEach(() => void (root = mkdtempSync(join(tmpdir(), 'duolane-protected-'))));
afterEach(() => rmSync(root, { recursive: true, force: true }));

const files = (writable: string[] = []): ProtectedFiles =>
  new ProtectedFiles({ home: '/nowhere', writable });
const put = (path: string, text = ''): void => {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
};
/** A repository as git sees it, with a config that runs a program. */
const plant = (folder: string): void => {
  put(`${folder}/HEAD`, 'ref: refs/heads/main');
  put(`${folder}/objects/x`);
  put(`${folder}/refs/x`);
  put(`${folder}/config`, '[core]\n\tfsmonitor = evil\n');
};

test('what is missing exists as long as the command runs, and nothing stays', async () => {
  const protection = await files().protect([root]);
  expect(protection.pinned).toContain(join(root, '.bashrc'));
  expect(protection.pinned.every((path) => existsSync(path))).toBe(true);
  expect(await protection.release()).toEqual([]);
  expect(readdirSync(root)).toEqual([]);
});

test('what a person puts into a placeholder meanwhile is kept', async () => {
  const protection = await files().protect([root]);
  put('.vscode/settings.json', '{}');
  expect(await protection.release()).toEqual([]);
  expect(readdirSync(root)).toEqual(['.vscode']);
});

test('what took the place of a placeholder is renamed', async () => {
  const protection = await files().protect([root]);
  // Another session has taken the placeholder away, and the command was quick.
  rmSync(join(root, '.bashrc'), { recursive: true });
  put('.bashrc', 'evil');
  expect(await protection.release()).toEqual([join(root, '.bashrc.blocked')]);
  expect(readdirSync(root)).toEqual(['.bashrc.blocked']);
});

test('what a call makes when another has taken its placeholder away is renamed', async () => {
  const [one, two] = [await files().protect([root]), await files().protect([root])];
  expect(await one.release()).toEqual([]);
  // Without the folder of the first, its mount has gone for the second.
  put('.bashrc', 'evil');
  expect(await two.release()).toEqual([join(root, '.bashrc.blocked')]);
  expect(readdirSync(root)).toEqual(['.bashrc.blocked']);
});

test('a call leaves the placeholders of another that still runs', async () => {
  const [one, two] = [await files().protect([root]), await files().protect([root])];
  expect(await two.release()).toEqual([]);
  expect(one.pinned.every((path) => existsSync(path))).toBe(true);
  expect(await one.release()).toEqual([]);
  expect(readdirSync(root)).toEqual([]);
});

test('only a repository that is new is judged', async () => {
  plant('old/.git');
  const protection = await files().protect([root]);
  expect(protection.nested).toEqual([join(root, 'old/.git/config')]);
  plant('new');
  expect(await protection.release()).toEqual([join(root, 'new/config.blocked')]);
  expect(existsSync(join(root, 'old/.git/config'))).toBe(true);
});

test('a config that is written through a hard link is judged by its text', async () => {
  plant('sub/.git');
  put('sub/.git/config', '[core]\n\tbare = false\n');
  linkSync(join(root, 'sub/.git/config'), join(root, 'link'));
  const protection = await files().protect([root]);
  put('link', '[core]\n\tfsmonitor = evil\n');
  expect(await protection.release()).toEqual([join(root, 'sub/.git/config.blocked')]);
});

test('what a person adds to a config meanwhile stays, with what was there before', async () => {
  plant('.git');
  plant('sub/.git');
  const protection = await files().protect([root]);
  const text = '[core]\n\tfsmonitor = evil\n[user]\n\tname = me\n';
  for (const folder of ['.git', 'sub/.git']) {
    // As git does it: a new file takes the place of the old one.
    put(`${folder}/config.lock`, text);
    renameSync(join(root, folder, 'config.lock'), join(root, folder, 'config'));
  }
  expect(await protection.release()).toEqual([]);
});

test('a repository that the settings name is left alone', async () => {
  const protection = await files([join(root, 'fixture')]).protect([root]);
  plant('fixture');
  expect(await protection.release()).toEqual([]);
});

const asRoot = process.getuid?.() === 0 ? 'to root no folder is closed' : undefined;
suite('a folder that a command has closed', asRoot, () => {
  test('is opened, and searched', async () => {
    const protection = await files().protect([root]);
    plant('sub/.git');
    chmodSync(join(root, 'sub/.git'), 0o111);
    chmodSync(join(root, 'sub'), 0o311);
    expect(await protection.release()).toEqual([join(root, 'sub/.git/config.blocked')]);
  });
});

test.each([
  ['[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n', true],
  ['[remote "origin"]\n\turl = https://example.com/a.git\n\tfetch = +refs/*:refs/*\n', true],
  ['', true],
  ['[core]\n\tfsmonitor = evil\n', false],
  ['[core] fsmonitor = evil\n', false],
  ['[core]\n\tbare = false\\\n\n', false],
  ['[CORE]\n\tsshCommand = evil\n', false],
  ['[include]\n\tpath = evil\n', false],
  ['[alias]\n\tst = !evil\n', false],
  ['[filter "x"]\n\tclean = evil\n', false],
  ['[remote "x"]\n\turl = ext::evil\n', false],
  ['[remote "x"]\n\tuploadpack = evil\n', false],
  ['[core]\r\n\thooksPath = evil\r\n', false],
  ['[alias "core"]\n\tbare = !evil\n', false],
  ['[core]\n\tbare = false\n[alias]\n\tbare = x\n', false],
  ['\0', false],
  ['[constructor]\n\tname = x\n', false],
])('a config %j is harmless: %s', (text, expected) => {
  expect(isHarmlessGitConfig(text)).toBe(expected);
});
