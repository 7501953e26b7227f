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
 * it includes: what is not on the list, or not written plainly, is not harmless.
 */
export function isHarmlessGitConfig(text: string): boolean {
  let keys: readonly string[] = [];
  return text.split('\n').every((line) => {
    const section = /^\[(\w+)(?: "[^"\\]*")?\]$/.exec(line.trim());
    if (section) {
      const name = (section[1] ?? '').toLowerCase();
      keys = Object.hasOwn(HARMLESS, name) ? (HARMLESS[name] ?? []) : [];
      return keys.length > 0;
    }
    if (line.trim() === '') return true;
    const entry = /^\s*(\w+) = ([^\\"]*)$/.exec(line);
    if (!entry) return false;
    const [, key = '', value = ''] = entry;
    // `ext::` and other helpers of git run a program.
    return keys.includes(key.toLowerCase()) && !value.includes('::');
  });
}
