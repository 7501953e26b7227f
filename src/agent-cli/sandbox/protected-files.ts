import { chmodSync, type Dirent, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { isInsideDirectory } from '../permissions/path-rules.ts';
import { EXISTING, HOME_STARTUP, STARTUP } from '../permissions/startup-files.ts';
import { configValues, isHarmlessGitConfig } from './git-config.ts';
import { entriesOf, identity, isFolder, notProtected, Placeholders, stat } from './placeholders.ts';

/** The files in a repository folder that make git run programs. */
const GIT_FILES = ['config', 'config.worktree', 'hooks'];
/** Git reads its config from the folder that this file names. */
const COMMONDIR = 'commondir';
/** The content that has the same meaning as a missing file: the folder itself. */
const SAME_FOLDER = '.\n';
/** How many folders are searched for repositories that a command created. */
const MAX_FOLDERS = 500_000;
const FOLDERS_PER_TICK = 500;
const MAX_CONFIG_BYTES = 1024 * 1024;

export interface ProtectedFilesOptions {
  readonly home: string;
  /** Paths that the settings name as writable. A protected file among them is not protected. */
  readonly writable: readonly string[];
}

/** The protection during one command. */
export interface Protection {
  /**
   * Paths to mount read-only. Their parent folders must be mounted, too, so that they stay in
   * place.
   */
  readonly pinned: readonly string[];
  /** Paths to mount read-only, in repositories below a writable folder. */
  readonly nested: readonly string[];
  /**
   * Call it when all processes of the command have ended. Removes the placeholders, and renames
   * dangerous files that the command created nevertheless; returns their new paths.
   */
  readonly release: () => Promise<readonly string[]>;
}

interface NamedFile {
  readonly path: string;
  /** A folder of hooks, or a config. */
  readonly kind: 'hooks' | 'config';
}

/**
 * Prevents that a command creates or changes a file that another program runs later, outside of the
 * sandbox. An existing file is mounted read-only. For a missing one, an empty folder is created
 * while the command runs: only existing paths can be mounted, git ignores empty folders, and
 * `rmdir` cannot delete anything that a person put there.
 *
 * A repository that a command creates in a nested folder cannot be protected in advance. It is
 * searched for after the command has ended, and files in it that make git run programs are renamed.
 */
export class ProtectedFiles {
  readonly #home: string;
  readonly #opened: readonly string[];

  constructor({ home, writable }: ProtectedFilesOptions) {
    this.#home = home;
    this.#opened = writable;
  }

  /** Paths and patterns that the file tools must not write. */
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
        ...this.#namedByConfig(root).map(({ path }) => asPattern(path)),
        // In a worktree and in a submodule, `.git` is a file that names the repository.
        ...(stat(join(root, '.git'))?.isDirectory() || this.#isOpen(join(root, '.git'))
          ? []
          : [asPattern(join(root, '.git'))]),
      ]);
  }

  /** Protects the writable folders `roots` (real paths). Throws if one cannot be protected. */
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
          // Compare the text, too: a command can change a read-only mounted file by a hard link.
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

  /** Whether the settings name the path as writable, or the `.git` folder that contains it. */
  #isOpen(path: string): boolean {
    return this.#opened.some(
      (opened) =>
        opened === path ||
        (opened === dirname(path) && GIT_FILES.includes(basename(path))) ||
        (basename(opened) === '.git' && isInsideDirectory(opened, path)),
    );
  }

  /** Whether a writable path is a protected file itself, instead of a folder that contains some. */
  #isNamed(path: string): boolean {
    return (
      this.#opened.includes(path) &&
      ([...STARTUP, ...EXISTING, '.git'].includes(basename(path)) ||
        basename(dirname(path)) === '.git' ||
        HOME_STARTUP.some((name) => join(this.#home, name) === path))
    );
  }

  /** The protected paths of a writable folder; creates placeholders for the missing ones. */
  #pin(root: string, made: Placeholders): string[] {
    const pinned: string[] = [];
    const git = join(root, '.git');
    const wanted = [...this.#startupIn(root), ...EXISTING.map((name) => join(root, name)), git];
    for (const path of wanted) {
      if (this.#isOpen(path)) continue;
      refuseLinks(path, root);
      const found = stat(path);
      // A `.git` without HEAD is a placeholder of another session or of one that crashed.
      if (path === git && found?.isDirectory() && stat(join(git, 'HEAD'))) {
        pinned.push(...this.#pinRepository(root, git, made));
        continue;
      }
      if (!found) {
        if (EXISTING.includes(basename(path))) continue;
        // Git fails if the config in the home directory is a folder, so this one is a file.
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
    // These stay after the command: they have no effect, and a repository usually has them.
    if (!stat(hooks)) made.keepFolder(hooks);
    if (!stat(config)) made.keepFile(config);
    // Register a placeholder of another session, too: if that session removes it and a command puts
    // a file there, `remove` reports the file.
    // Reading a pipe would block the process, also for a cancel.
    for (const path of [config, common])
      if (stat(path)?.isFile() === false) throw notProtected(path, 'is not a regular file');
    if (!stat(common) || readFileSync(common, 'utf8') === SAME_FOLDER)
      made.file(common, SAME_FOLDER);
    const text = readFileSync(config, 'utf8');
    if (/worktreeconfig/i.test(text) && !stat(worktree)) made.keepFile(worktree);
    const paths = [config, hooks, common, ...(stat(worktree) ? [worktree] : [])];
    for (const { path, kind } of this.#namedByConfig(root)) {
      refuseLinks(path, root);
      if (!stat(path) && kind === 'hooks') made.folder(path);
      if (!stat(path)) {
        if (!stat(dirname(path))) made.folder(dirname(path));
        made.file(path, '');
      }
      paths.push(path);
    }
    return paths.filter((path) => !this.#isOpen(path));
  }

  /**
   * The files and folders of the project that its git config names and that make git run programs:
   * folders of hooks, and included configs with what they name.
   */
  #namedByConfig(root: string): readonly NamedFile[] {
    const named = new Map<string, NamedFile>();
    const add = (kind: NamedFile['kind'], from: string, value: string): string | undefined => {
      const path = value.startsWith('~/') ? join(this.#home, value.slice(2)) : resolve(from, value);
      const isOutside = path === root || !isInsideDirectory(root, path);
      if (isOutside || named.has(path) || this.#isOpen(path)) return undefined;
      named.set(path, { path, kind });
      return path;
    };
    const configs = ['config', 'config.worktree'].map((name) => join(root, '.git', name));
    for (const config of configs) {
      const text = textOf(config) ?? '';
      for (const value of configValues(text, 'core', 'hookspath')) add('hooks', root, value);
      const included = ['include', 'includeif'].flatMap((name) => configValues(text, name, 'path'));
      for (const value of included) {
        const path = add('config', dirname(config), value);
        // The loop reads it in its turn, once: it may include further ones.
        if (path !== undefined) configs.push(path);
      }
    }
    return [...named.values()];
  }

  /** Every folder below `roots` that git may take for a repository, also inside `.git`. */
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
      // Yield regularly: the search in a large project must not block the process.
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

/**
 * A pattern that matches the path. Special characters become `?`, so it may match similar paths.
 */
export const asPattern = (path: string): string => path.replace(/[*?{}]/g, '?');

/**
 * Throws if a link is on the way from `root` to `path`. A command could replace the link, even if
 * its target is protected.
 */
function refuseLinks(path: string, root: string): void {
  for (let part = path; part !== root && part !== dirname(part); part = dirname(part))
    if (stat(part)?.isSymbolicLink()) throw notProtected(part, 'is a link');
}

/** Whether a new or changed file makes git run nothing new. `before`: its earlier text. */
function isHarmless(path: string, before: string | undefined): boolean {
  if (basename(path) !== 'hooks') return isHarmlessGitConfig(textOf(path) ?? '\0', before);
  return (
    isFolder(path) &&
    openedEntries(path).every((entry) => entry.isFile() && entry.name.endsWith('.sample'))
  );
}

/**
 * The text of a config. Undefined: not a file, too long or not readable, so it counts as dangerous.
 */
function textOf(path: string): string | undefined {
  const found = stat(path);
  if (!found?.isFile() || found.size > MAX_CONFIG_BYTES) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // No permission to read it.
    return undefined;
  }
}

/** Renames all files, also after a failure. Then throws the first error, if there was one. */
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

/** Renames a file so that no program finds it; returns the new path. */
function setAside(path: string): string {
  let other = `${path}.blocked`;
  for (let i = 1; stat(other); i++) other = `${path}.blocked-${i}`;
  try {
    if (!tryRename(path, other)) {
      // The command may have removed write permission of the folder to prevent the renaming.
      open(dirname(path));
      renameSync(path, other);
    }
  } catch (reason) {
    const { message } = reason as Error;
    throw notProtected(path, `was created by a command and cannot be renamed (${message})`);
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

/** Restores the owner's permissions, which a command may have removed. */
function open(folder: string): void {
  const mode = stat(folder)?.mode ?? 0;
  chmodSync(folder, (mode & 0o777) | 0o700);
}

/**
 * The entries of a folder, after restoring its permissions if needed. A command may remove the
 * permission to list a folder, and git still finds the files in it by name.
 */
function openedEntries(folder: string): Dirent[] {
  const found = entriesOf(folder);
  if (found) return found;
  try {
    open(folder);
  } catch {
    // The folder belongs to another user, so the command did not change its permissions.
  }
  return entriesOf(folder) ?? [];
}
