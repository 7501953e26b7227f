/** Keys, by section, that start no program and name no other config file. */
const HARMLESS: Readonly<Record<string, readonly string[]>> = {
  core: [
    'bare',
    'filemode',
    'ignorecase',
    'logallrefupdates',
    'precomposeunicode',
    'repositoryformatversion',
    'symlinks',
  ],
  extensions: ['objectformat', 'refstorage'],
  branch: ['merge', 'rebase', 'remote'],
  init: ['defaultbranch'],
  remote: ['fetch', 'url'],
  user: ['email', 'name'],
};

/**
 * Whether the config of a repository has only keys that `git init` and `git clone` write. Dozens of
 * keys make git run a program (`core.fsmonitor`, `filter.x.clean`, `alias.x`, …), and so do
 * included files. So a key that is not on the list, and a line in an unusual form, is not harmless.
 * Lines of the text `before` are accepted.
 */
export function isHarmlessGitConfig(text: string, before = ''): boolean {
  // A known line counts only in its own section: the same key means something else in another.
  const known = new Set(entriesOf(before));
  return entriesOf(text).every((entry) => known.has(entry) || isHarmlessEntry(entry));
}

/** Each line, prefixed by its section. */
function entriesOf(text: string): string[] {
  let section = '';
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      if (line.trimStart().startsWith('[')) section = line.trim();
      return `${section}\n${line}`;
    });
}

function isHarmlessEntry(entry: string): boolean {
  const [section = '', line = ''] = entry.split('\n');
  const name = /^\[(\w+)(?: "[^"\\]*")?\]$/.exec(section)?.[1]?.toLowerCase() ?? '';
  const keys = Object.hasOwn(HARMLESS, name) ? (HARMLESS[name] ?? []) : [];
  if (line.trim() === section) return keys.length > 0;
  const [, key = '', value = ''] = /^\s*(\w+) = ([^\\"]*)$/.exec(line) ?? [];
  // A URL with `::`, such as `ext::`, names a remote helper, which is a program that git runs.
  return keys.includes(key.toLowerCase()) && !value.includes('::');
}

/**
 * The values of a key in the sections of a name, both in lower case, in the order of the config. A
 * key may stand behind its section, and a value in quotes.
 */
export function configValues(text: string, section: string, key: string): string[] {
  const values: string[] = [];
  let current = '';
  for (const line of text.replaceAll('\\\n', '').split('\n')) {
    const [, name, after] = /^\s*\[([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\](.*)$/.exec(line) ?? [];
    if (name !== undefined) current = name.toLowerCase();
    const [, own = '', value = ''] = /^\s*([\w-]+)\s*=(.*)$/.exec(after ?? line) ?? [];
    if (current !== section || own.toLowerCase() !== key) continue;
    const quoted = /^\s*"([^"]*)"/.exec(value)?.[1];
    const path = quoted ?? value.replace(/[#;].*/, '').trim();
    if (path !== '') values.push(path);
  }
  return values;
}
