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
import { DuolaneError } from '../../errors.ts';

/** Longer than any command runs. */
const OTHERS_MS = 15 * 60_000;

/** Files and folders that exist as long as a command runs. */
export class Placeholders {
  /** With their identity. */
  readonly #folders = new Map<string, string>();
  /** Those of them that another session takes away. */
  readonly #others = new Set<string>();
  /** With their text. */
  readonly #files = new Map<string, string>();
  readonly #onExit = (): void => {
    this.remove();
  };

  constructor() {
    process.once('exit', this.#onExit);
  }

  /**
   * An empty folder that was there before. An old one was left by a session that has crashed, and is
   * taken away with the others. A new one is of another session, which takes it away itself.
   */
  adopt(path: string, { birthtimeMs }: Stats): void {
    this.#folders.set(path, identity(path));
    if (Date.now() - birthtimeMs < OTHERS_MS) this.#others.add(path);
  }

  /** Makes an empty folder, and those on the way to it. */
  folder(path: string): void {
    if (!stat(dirname(path))) this.folder(dirname(path));
    attempt(path, () => mkdirSync(path));
    this.#folders.set(path, identity(path));
  }

  file(path: string, text: string): void {
    attempt(path, () => writeFileSync(path, text, { flag: 'wx' }));
    // What another session has made is this text as well, or is not for us to take away.
    this.#files.set(path, text);
  }

  keepFolder(path: string): void {
    attempt(path, () => mkdirSync(path));
  }

  keepFile(path: string): void {
    attempt(path, () => writeFileSync(path, '', { flag: 'wx' }));
  }

  /** Takes them away, the last one first; returns the paths where something else is by now. */
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
        // A person has put something into it: the command could not. Or it is another one.
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
    // Another session in the same folder has made it at the same time.
    if (code === 'EEXIST') return;
    throw notProtected(path, `cannot be made (${code ?? String(reason)})`);
  }
}

/** Undefined: closed to us. */
export function entriesOf(folder: string): Dirent[] | undefined {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (reason) {
    // One that has gone meanwhile has nothing in it.
    return (reason as NodeJS.ErrnoException).code === 'EACCES' ? undefined : [];
  }
}

export function stat(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

export function isFolder(path: string): boolean {
  return stat(path)?.isDirectory() === true;
}

/** A number of a file is used again when the file has gone: the time of its birth tells them apart. */
export function identity(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.dev}:${found.ino}:${found.birthtimeNs}` : `missing:${path}`;
}

export const notProtected = (path: string, why: string): DuolaneError =>
  new DuolaneError(
    'unsupported',
    `cannot run commands: the setting "sandbox" is enabled and "${path}" ${why}, so it cannot be ` +
      'protected; change that, or name it in sandbox.filesystem.allowWrite',
  );
