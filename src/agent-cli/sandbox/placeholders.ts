import {
  type Dirent,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  type Stats,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { DuolaneError, errorMessage } from '../../errors.ts';

/** Longer than any command may run. */
const OTHERS_MS = 15 * 60_000;

/**
 * Creates files and folders that exist only while a command runs, so that they can be mounted
 * read-only. They are also removed when the process exits.
 */
export class Placeholders {
  /** Path to identity. */
  readonly #folders = new Map<string, string>();
  /** The folders that another session created and will remove. */
  readonly #others = new Set<string>();
  /** Path to text. */
  readonly #files = new Map<string, string>();
  readonly #onExit = (): void => {
    this.remove();
  };

  constructor() {
    process.once('exit', this.#onExit);
  }

  /**
   * Registers an empty folder that exists already. An old one comes from a session that crashed,
   * and is removed with the others. A recent one belongs to another session, which removes it.
   */
  adopt(path: string, { birthtimeMs }: Stats): void {
    this.#folders.set(path, identity(path));
    if (Date.now() - birthtimeMs < OTHERS_MS) this.#others.add(path);
  }

  /** Creates an empty folder and its missing parents. */
  folder(path: string): void {
    if (!stat(dirname(path))) this.folder(dirname(path));
    attempt(path, () => mkdirSync(path));
    this.#folders.set(path, identity(path));
  }

  file(path: string, text: string): void {
    attempt(path, () => writeFileSync(path, text, { flag: 'wx' }));
    // `remove` deletes the file only if it has this text, whichever session created it.
    this.#files.set(path, text);
  }

  /** Creates a folder that stays after the command. */
  keepFolder(path: string): void {
    attempt(path, () => mkdirSync(path));
  }

  /** Creates an empty file that stays after the command. */
  keepFile(path: string): void {
    attempt(path, () => writeFileSync(path, '', { flag: 'wx' }));
  }

  /** Removes them, the last one first. Returns the paths that now hold something else. */
  remove(): string[] {
    process.off('exit', this.#onExit);
    const replaced: string[] = [];
    for (const [path, text] of [...this.#files].toReversed()) {
      if (!stat(path)) continue;
      if (stat(path)?.isFile() && readFileSync(path, 'utf8') === text) unlinkSync(path);
      else replaced.push(path);
    }
    for (const [path, id] of [...this.#folders].toReversed()) {
      if (!stat(path) || (this.#others.has(path) && identity(path) === id)) continue;
      try {
        rmdirSync(path);
      } catch {
        // The folder is not empty: a person put something into it, which the command could not do.
        // Or it is a different folder, which replaced the placeholder.
        if (identity(path) !== id || !isFolder(path)) replaced.push(path);
      }
    }
    this.#folders.clear();
    this.#files.clear();
    return replaced;
  }
}

function attempt(path: string, make: () => void): void {
  try {
    make();
  } catch (reason) {
    const code = (reason as NodeJS.ErrnoException).code;
    // Another session in the same folder created it at the same time.
    if (code === 'EEXIST') return;
    throw notProtected(path, `cannot be created (${code ?? errorMessage(reason)})`);
  }
}

/** The entries of a folder. Undefined: this process has no permission to read it. */
export function entriesOf(folder: string): Dirent[] | undefined {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (reason) {
    // A folder that was deleted meanwhile has no entries.
    return (reason as NodeJS.ErrnoException).code === 'EACCES' ? undefined : [];
  }
}

export function stat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

export function isFolder(path: string): boolean {
  return stat(path)?.isDirectory() === true;
}

/**
 * Identifies a file independently of its path. The inode number alone is not enough: the file
 * system reuses it after a deletion, so the creation time is part of the identity.
 */
export function identity(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.dev}:${found.ino}:${found.birthtimeNs}` : `missing:${path}`;
}

export const notProtected = (path: string, why: string): DuolaneError =>
  new DuolaneError(
    'unsupported',
    `cannot run commands in the sandbox of the settings: "${path}" cannot be protected, since it ` +
      `${why}; change that, or name it in sandbox.filesystem.allowWrite`,
  );
