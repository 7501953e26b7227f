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

test('placeholders for missing files exist only while the command runs', async () => {
  const protection = await files().protect([root]);
  expect(protection.pinned).toContain(join(root, '.bashrc'));
  expect(protection.pinned.every((path) => existsSync(path))).toBe(true);
  expect(await protection.release()).toEqual([]);
  expect(readdirSync(root)).toEqual([]);
});

test('a file that a person puts into a placeholder is kept', async () => {
  const protection = await files().protect([root]);
  put('.vscode/settings.json', '{}');
  expect(await protection.release()).toEqual([]);
  expect(readdirSync(root)).toEqual(['.vscode']);
});

test('a file that replaced a placeholder is renamed', async () => {
  const protection = await files().protect([root]);
  // Another session removed the placeholder, and the command created a file there.
  rmSync(join(root, '.bashrc'), { recursive: true });
  put('.bashrc', 'evil');
  expect(await protection.release()).toEqual([join(root, '.bashrc.blocked')]);
  expect(readdirSync(root)).toEqual(['.bashrc.blocked']);
});

test('a file that a call creates after another call removed the placeholder is renamed', async () => {
  const [one, two] = [await files().protect([root]), await files().protect([root])];
  expect(await one.release()).toEqual([]);
  // The first call removes the folder, and with it the mount of the second call.
  put('.bashrc', 'evil');
  expect(await two.release()).toEqual([join(root, '.bashrc.blocked')]);
  expect(readdirSync(root)).toEqual(['.bashrc.blocked']);
});

test('a call keeps the placeholders of another call that still runs', async () => {
  const [one, two] = [await files().protect([root]), await files().protect([root])];
  expect(await two.release()).toEqual([]);
  expect(one.pinned.every((path) => existsSync(path))).toBe(true);
  expect(await one.release()).toEqual([]);
  expect(readdirSync(root)).toEqual([]);
});

test('only a new repository is checked', async () => {
  plant('old/.git');
  const protection = await files().protect([root]);
  expect(protection.nested).toEqual([join(root, 'old/.git/config')]);
  plant('new');
  expect(await protection.release()).toEqual([join(root, 'new/config.blocked')]);
  expect(existsSync(join(root, 'old/.git/config'))).toBe(true);
});

test('a config that is written through a hard link is checked by its text', async () => {
  plant('sub/.git');
  put('sub/.git/config', '[core]\n\tbare = false\n');
  linkSync(join(root, 'sub/.git/config'), join(root, 'link'));
  const protection = await files().protect([root]);
  put('link', '[core]\n\tfsmonitor = evil\n');
  expect(await protection.release()).toEqual([join(root, 'sub/.git/config.blocked')]);
});

test('a change that a person makes to a config meanwhile is kept', async () => {
  plant('.git');
  plant('sub/.git');
  const protection = await files().protect([root]);
  const text = '[core]\n\tfsmonitor = evil\n[user]\n\tname = me\n';
  for (const folder of ['.git', 'sub/.git']) {
    // Git replaces the old file by a new one.
    put(`${folder}/config.lock`, text);
    renameSync(join(root, folder, 'config.lock'), join(root, folder, 'config'));
  }
  expect(await protection.release()).toEqual([]);
});

test('a repository that the settings name is not protected', async () => {
  const protection = await files([join(root, 'fixture')]).protect([root]);
  plant('fixture');
  expect(await protection.release()).toEqual([]);
});

const asRoot = process.getuid?.() === 0 ? 'to root no folder is closed' : undefined;
suite('a folder that a command has closed', asRoot, () => {
  test('is made readable and searched', async () => {
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

test('configs that the config includes, and folders of hooks, are protected', async () => {
  put('.git/HEAD', 'ref: refs/heads/main');
  put('.git/config', '[include] path = ../shared/config\n[Core] HooksPath = "my #hooks" # ours\n');
  put('shared/config', '[includeIf  "gitdir:x]y"]\n\tpath = more/one.inc\n');
  const named = ['shared/config', 'shared/more/one.inc', 'my #hooks'];
  const protection = await files().protect([root]);
  for (const name of named) expect(protection.pinned).toContain(join(root, name));
  for (const name of named) expect(files().rules([root])).toContain(join(root, name));
  expect(await protection.release()).toEqual([]);
  expect(readdirSync(join(root, 'shared'))).toEqual(['config']);
});
