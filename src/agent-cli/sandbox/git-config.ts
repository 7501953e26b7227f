/** Keys that start no program and lead to no other file, by their section. */
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
 * Whether a config of a repository is one that `git init` and `git clone` write. Git can be made to
 * run a program by dozens of keys (`core.fsmonitor`, `filter.x.clean`, `alias.x`, …) and by files that
 * it includes: what is not on the list, or not written plainly, is not harmless. Lines that were
 * there `before` are.
 */
export function isHarmlessGitConfig(text: string, before = ''): boolean {
  // A line of `[section]` does not make its keys known: those must have been in the same section.
  const known = new Set(entriesOf(before));
  return entriesOf(text).every((entry) => known.has(entry) || isHarmlessEntry(entry));
}

/** Each line with the section that it is in. */
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
  // `ext::` and other helpers of git run a program.
  return keys.includes(key.toLowerCase()) && !value.includes('::');
}
