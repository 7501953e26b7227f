import { chmodSync, type Dirent, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { isInsideDirectory } from '../permissions/path-rules.ts';
import { isHarmlessGitConfig } from './git-config.ts';
import { entriesOf, identity, isFolder, notProtected, Placeholders, stat } from './placeholders.ts';

/**
 * Files that a shell, an editor or an agent runs or believes when a person works in the folder
 * later, outside of the sandbox. They are closed in every writable folder, also where they do not
 * exist yet.
 */
const STARTUP = [
  '.bash_login',
  '.bash_logout',
  '.bash_profile',
  '.bashrc',
  '.claude',
  '.cursor',
  '.devcontainer',
  '.dir-locals.el',
  '.envrc',
  '.exrc',
  '.gitconfig',
  '.idea',
  '.inputrc',
  '.mcp.json',
  '.nvim.lua',
  '.nvimrc',
  '.profile',
  '.vimrc',
  '.vscode',
  '.zed',
  '.zlogin',
  '.zlogout',
  '.zprofile',
  '.zshenv',
  '.zshrc',
];
/** The same in a home, for a folder that holds one. */
const HOME_STARTUP = [
  ...STARTUP,
  '.config/autostart',
  '.config/environment.d',
  '.config/fish',
  '.config/git',
  '.config/nvim',
  '.config/systemd',
  '.pam_environment',
  '.ssh',
  '.vim',
  '.xprofile',
  '.xsessionrc',
];
/** Closed where they exist: they do nothing unless the config of the repository names them. */
const EXISTING = ['.gitmodules', '.githooks', '.husky'];
/** What git runs programs by, in the folder of a repository. */
const GIT_FILES = ['config', 'config.worktree', 'hooks'];
/** Git takes its config from the folder that this file names. */
const COMMONDIR = 'commondir';
/** What it means when it is missing: git reads it as "this very folder". */
const SAME_FOLDER = '.\n';
/** How many folders are searched for repositories that a command has made. */
const MAX_FOLDERS = 500_000;
const FOLDERS_PER_TICK = 500;
const MAX_CONFIG_BYTES = 1024 * 1024;

export interface ProtectedFilesOptions {
  readonly home: string;
  /** Paths that the settings name as writable: a protected file that is one of them stays open. */
  readonly writable: readonly string[];
}

/** The protection of one call. */
export interface Protection {
  /** To be mounted read-only; their folders must not be replaced either. */
  readonly pinned: readonly string[];
  /** To be mounted read-only, in repositories below a writable folder. */
  readonly nested: readonly string[];
  /**
   * Call it when all processes of the command have ended. Takes away what was made for the mounts,
   * and renames what the command has made in spite of them; returns the paths of those.
   */
  readonly release: () => Promise<readonly string[]>;
}

/**
 * Keeps a command from leaving behind a file that another program runs later, outside of the
 * sandbox. A file that exists is mounted read-only. For one that does not, an empty folder is made
 * as long as the command runs: only what exists can be mounted, git does not see empty folders, and
 * `rmdir` can never take away something that a person has put there.
 *
 * A repository that a command makes in a folder below cannot be foreseen: it is looked for when the
 * command has ended, and what makes git run programs is renamed.
 */
export class ProtectedFiles {
  readonly #home: string;
  readonly #opened: readonly string[];

  constructor({ home, writable }: ProtectedFilesOptions) {
    this.#home = home;
    this.#opened = writable;
  }

  /** Paths and patterns that the file tools may not write either. */
  rules(roots: readonly string[]): string[] {
    return roots
      .filter((root) => !this.#isNamed(root))
      .flatMap((root) => [
        ...[...this.#startupIn(root), ...EXISTING.map((name) => join(root, name))]
          .filter((path) => !this.#isOpen(path))
          .map(asPattern),
        ...(this.#isOpen(join(root, '.git'))
          ? []
          : [...GIT_FILES, COMMONDIR]
              .filter((name) => !this.#isOpen(join(root, '.git', name)))
              .flatMap((name) => [
                join(asPattern(root), '**/.git', name),
                join(asPattern(root), '**/.git/{modules,worktrees}/**', name),
              ])),
        // In a worktree, and in a submodule, it is a file that names the repository.
        ...(stat(join(root, '.git'))?.isDirectory() || this.#isOpen(join(root, '.git'))
          ? []
          : [asPattern(join(root, '.git'))]),
      ]);
  }

  /** `roots`: the writable folders, by their real paths. Throws where one cannot be protected. */
  async protect(roots: readonly string[]): Promise<Protection> {
    const made = new Placeholders();
    try {
      const pinned = roots
        .filter((root) => isFolder(root) && !this.#isNamed(root))
        .flatMap((root) => this.#pin(root, made));
      const unreadable = new Set<string>();
      const before = await this.#repositories(roots, (folder) => {
        unreadable.add(identity(folder));
        return [];
      });
      const nested = before
        .flatMap((folder) => GIT_FILES.map((name) => join(folder, name)))
        .filter((path) => !this.#isOpen(path) && !pinned.includes(path) && stat(path));
      const known = new Map([...pinned, ...nested].map((path) => [identity(path), textOf(path)]));
      const texts = new Map([...pinned, ...nested].map((path) => [path, textOf(path)]));
      for (const path of nested)
        if (stat(path)?.isSymbolicLink()) throw notProtected(path, 'is a link');
      const release = async (): Promise<readonly string[]> => {
        const replaced = made.remove();
        const found = await this.#repositories(roots, (folder) =>
          unreadable.has(identity(folder)) ? [] : openedEntries(folder),
        );
        const unsafe = found
          .flatMap((folder) => GIT_FILES.map((name) => join(folder, name)))
          .filter((path) => !this.#isOpen(path) && stat(path))
          // By its text, too: a hard link is another way to a file that is mounted read-only.
          .filter(
            (path) => !known.has(identity(path)) || known.get(identity(path)) !== textOf(path),
          )
          .filter((path) => !isHarmless(path, texts.get(path)));
        return setAsideAll([...replaced, ...unsafe]);
      };
      return { pinned, nested, release };
    } catch (reason) {
      made.remove();
      throw reason;
    }
  }

  #startupIn(root: string): string[] {
    const paths = STARTUP.map((name) => join(root, name));
    if (isInsideDirectory(root, this.#home))
      paths.push(...HOME_STARTUP.map((name) => join(this.#home, name)));
    return [...new Set(paths)];
  }

  /** What a setting names is open, and so is all of a repository whose folder it names. */
  #isOpen(path: string): boolean {
    return this.#opened.some(
      (opened) =>
        opened === path ||
        (opened === dirname(path) && GIT_FILES.includes(basename(path))) ||
        (basename(opened) === '.git' && isInsideDirectory(opened, path)),
    );
  }

  /** Whether a writable path is one of the protected files itself, and not a folder that holds some. */
  #isNamed(path: string): boolean {
    return (
      this.#opened.includes(path) &&
      ([...STARTUP, ...EXISTING, '.git'].includes(basename(path)) ||
        basename(dirname(path)) === '.git' ||
        HOME_STARTUP.some((name) => join(this.#home, name) === path))
    );
  }

  #pin(root: string, made: Placeholders): string[] {
    const pinned: string[] = [];
    const git = join(root, '.git');
    const wanted = [...this.#startupIn(root), ...EXISTING.map((name) => join(root, name)), git];
    for (const path of wanted) {
      if (this.#isOpen(path)) continue;
      refuseLinks(path, root);
      const found = stat(path);
      // An empty one is a placeholder, of another session or left by a crash.
      if (path === git && found?.isDirectory() && stat(join(git, 'HEAD'))) {
        pinned.push(...this.#pinRepository(root, git, made));
        continue;
      }
      if (!found) {
        if (EXISTING.includes(basename(path))) continue;
        // Git refuses to work with a config of the home that is a folder.
        if (path === join(this.#home, '.gitconfig')) made.file(path, '');
        else made.folder(path);
      } else if (found.isDirectory() && entriesOf(path)?.length === 0) made.adopt(path, found);
      pinned.push(path);
    }
    return pinned;
  }

  #pinRepository(root: string, git: string, made: Placeholders): string[] {
    const [config, hooks] = [join(git, 'config'), join(git, 'hooks')];
    const common = join(git, COMMONDIR);
    const worktree = join(git, 'config.worktree');
    for (const path of [config, hooks, common, worktree]) refuseLinks(path, root);
    // These stay: they mean nothing, and a repository has them.
    if (!stat(hooks)) made.keepFolder(hooks);
    if (!stat(config)) made.keepFile(config);
    // Also one of another session: when that takes it away, this one looks for what is there then.
    if (!stat(common) || readFileSync(common, 'utf8') === SAME_FOLDER)
      made.file(common, SAME_FOLDER);
    const text = readFileSync(config, 'utf8');
    if (/worktreeconfig/i.test(text) && !stat(worktree)) made.keepFile(worktree);
    const paths = [config, hooks, common, ...(stat(worktree) ? [worktree] : [])];
    const named = hooksPath(text);
    const other = named === undefined ? undefined : resolve(root, named);
    if (other !== undefined && other !== root && isInsideDirectory(root, other)) {
      refuseLinks(other, root);
      if (!stat(other)) made.folder(other);
      paths.push(other);
    }
    return paths.filter((path) => !this.#isOpen(path));
  }

  /** Every folder that git may take for a repository, wherever it is: also inside of `.git`. */
  async #repositories(
    roots: readonly string[],
    onUnreadable: (folder: string) => readonly Dirent[],
  ): Promise<string[]> {
    const found = new Set<string>();
    const outer = roots.filter(
      (root) =>
        isFolder(root) && !roots.some((other) => other !== root && isInsideDirectory(other, root)),
    );
    const folders = [...new Set(outer)];
    let count = 0;
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      if (++count > MAX_FOLDERS)
        throw notProtected(folder, `is one of more than ${MAX_FOLDERS} folders`);
      // A large project must not hold up everything else of this process.
      if (count % FOLDERS_PER_TICK === 0) await new Promise((done) => setImmediate(done));
      const names = new Set<string>();
      for (const entry of entriesOf(folder) ?? onUnreadable(folder)) {
        names.add(entry.name);
        if (entry.isDirectory()) folders.push(join(folder, entry.name));
      }
      if (
        (names.has('objects') && names.has('refs')) ||
        (names.has('HEAD') && names.has(COMMONDIR))
      )
        found.add(folder);
    }
    return [...found];
  }
}

/** A path as a pattern that fits it; `?` is any character, so it may fit its like as well. */
export const asPattern = (path: string): string => path.replace(/[*?{}]/g, '?');

/** A link can be replaced by another one, whatever it leads to is closed or not. */
function refuseLinks(path: string, root: string): void {
  for (let part = path; part !== root && part !== dirname(part); part = dirname(part))
    if (stat(part)?.isSymbolicLink()) throw notProtected(part, 'is a link');
}

/** Made or changed, but without a new way to make git run something. `before`: its text. */
function isHarmless(path: string, before: string | undefined): boolean {
  if (basename(path) !== 'hooks') return isHarmlessGitConfig(textOf(path) ?? '\0', before);
  return (
    isFolder(path) &&
    openedEntries(path).every((entry) => entry.isFile() && entry.name.endsWith('.sample'))
  );
}

/** Undefined: no file, or one that is too long for a config. What cannot be read cannot be judged. */
function textOf(path: string): string | undefined {
  const found = stat(path);
  if (!found?.isFile() || found.size > MAX_CONFIG_BYTES) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // Closed to us: it counts as a file that is not harmless.
    return undefined;
  }
}

/** All of them, whatever becomes of one; throws for the first that cannot be renamed. */
function setAsideAll(paths: readonly string[]): string[] {
  const failures: unknown[] = [];
  const renamed = paths.flatMap((path) => {
    try {
      return [setAside(path)];
    } catch (reason) {
      failures.push(reason);
      return [];
    }
  });
  if (failures.length > 0) throw failures[0];
  return renamed;
}

/** Gives a file a name that no program looks for; returns the new path. */
function setAside(path: string): string {
  let other = `${path}.blocked`;
  for (let i = 1; stat(other); i++) other = `${path}.blocked-${i}`;
  try {
    if (!tryRename(path, other)) {
      // A command has closed the folder, so that nothing in it can be renamed.
      open(dirname(path));
      renameSync(path, other);
    }
  } catch (reason) {
    const { message } = reason as Error;
    throw notProtected(path, `was made by a command and cannot be renamed: ${message}`);
  }
  return other;
}

function tryRename(path: string, other: string): boolean {
  try {
    renameSync(path, other);
    return true;
  } catch {
    // The second attempt reports why.
    return false;
  }
}

/** Gives the owner back what a command has taken away from itself. */
function open(folder: string): void {
  const mode = stat(folder)?.mode ?? 0;
  chmodSync(folder, (mode & 0o777) | 0o700);
}

/** `core.hooksPath` of a config; a path of the home or an absolute one is not in the repository. */
function hooksPath(config: string): string | undefined {
  const lines = config.split('\n').map((line) => line.trim());
  const found = lines.findLast((line) => /^hookspath\b/i.test(line));
  const [value = ''] = (found?.slice(found.indexOf('=') + 1) ?? '').split(/[#;]/);
  const path = value.replaceAll('"', '').trim();
  return path === '' || path.startsWith('~') ? undefined : path;
}

/** Git needs no list of a folder to use what is in it: a command may have taken it away. */
function openedEntries(folder: string): Dirent[] {
  const found = entriesOf(folder);
  if (found) return found;
  try {
    open(folder);
  } catch {
    // It belongs to another user, so the command has not closed it.
  }
  return entriesOf(folder) ?? [];
}
