import { join, relative, sep } from 'node:path';
import { isInsideDirectory } from './path-rules.ts';

/**
 * Files that a shell, an editor or an agent runs or obeys when a person later works in the folder,
 * outside of the sandbox. They are protected in every writable folder, even if they do not exist
 * yet.
 */
export const STARTUP: readonly string[] = [
  '.amazonq',
  '.bash_aliases',
  '.bash_login',
  '.bash_logout',
  '.bash_profile',
  '.bashrc',
  '.claude',
  '.codex',
  '.cursor',
  '.devcontainer',
  '.dir-locals.el',
  '.envrc',
  '.exrc',
  '.gemini',
  '.gitconfig',
  '.idea',
  '.inputrc',
  '.kiro',
  '.mcp.json',
  '.nvim.lua',
  '.nvimrc',
  '.opencode',
  '.profile',
  '.roo',
  '.vimrc',
  '.vscode',
  '.windsurf',
  '.zed',
  '.zlogin',
  '.zlogout',
  '.zprofile',
  '.zshenv',
  '.zshrc',
];
/** The same for a home directory inside a writable folder. */
export const HOME_STARTUP: readonly string[] = [
  ...STARTUP,
  '.config/autostart',
  '.config/emacs',
  '.config/environment.d',
  '.config/fish',
  '.config/git',
  '.config/nvim',
  '.config/systemd',
  '.emacs',
  '.emacs.d',
  '.gdbinit',
  '.local/bin',
  '.pam_environment',
  '.psqlrc',
  '.ssh',
  '.tmux.conf',
  '.vim',
  '.xinitrc',
  '.xprofile',
  '.xsessionrc',
];
/**
 * Protected only if they exist: they have no effect unless the config or a hook of the repository
 * names them.
 */
export const EXISTING: readonly string[] = [
  '.gitmodules',
  '.githooks',
  '.husky',
  '.lefthook.yaml',
  '.lefthook.yml',
  '.overcommit.yml',
  '.pre-commit-config.yaml',
  'lefthook.yaml',
  'lefthook.yml',
];
/**
 * Files in a home directory that name programs. In the sandbox they are hidden, so they need no
 * placeholder.
 */
const HOME_CONFIGS: readonly string[] = ['.claude.json'];

/** Folders whose content decides what git and Mercurial run. */
const REPOSITORIES = ['.git', '.hg'];

const NAMES: ReadonlySet<string> = new Set([...STARTUP, ...EXISTING, ...REPOSITORIES]);

/**
 * Characters that some file systems (HFS+) ignore in names: `.g\u200cit` opens `.git` there.
 */
const IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

const fold = (name: string): string => name.replace(IGNORED, '').toLowerCase();

/**
 * Whether another program runs or obeys the file at this path, at any depth of the working
 * directories or in the home directory. A permission to edit files does not include these: with
 * `.git/config`, the next `git status` of a person runs any command.
 */
export function isStartupFile(
  path: string,
  { directories, home }: { readonly directories: readonly string[]; readonly home: string },
): boolean {
  const roots = directories.filter((directory) => isInsideDirectory(directory, path));
  // Names above the working directory do not count: it may be a folder inside `.claude`.
  const parts = roots.map((root) => relative(root, path).split(sep).map(fold));
  if (parts.length > 0 && parts.every((names) => names.some((name) => NAMES.has(name))))
    return true;
  return [...HOME_STARTUP, ...HOME_CONFIGS].some((name) =>
    isInsideDirectory(fold(join(home, name)), fold(path)),
  );
}
