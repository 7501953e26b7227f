import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { DuolaneError } from '../errors.ts';
import type { ProcessOptions } from './types.ts';

/** What is really executed. */
export interface ResolvedCommand {
  readonly file: string;
  readonly args: readonly string[];
}

type Asked = Pick<ProcessOptions, 'command' | 'args' | 'cwd' | 'env'>;

const SCRIPT = /\.[cm]?[jt]s$/i;

/** A script is run by this Node, a Windows shim by what it points to, anything else directly. Throws `not_found` or `invalid`. */
export function resolveCommand(asked: Asked): ResolvedCommand {
  const { command, args } = asked;
  if (SCRIPT.test(command)) return runScript(asked, command);
  if (process.platform !== 'win32') return { file: command, args };
  const found = /[\\/.]/.test(command) ? command : findOnWindows(asked);
  return /\.(cmd|bat)$/i.test(found) ? runScript(asked, shimTarget(found)) : { file: found, args };
}

function runScript({ args, cwd = '.' }: Asked, script: string): ResolvedCommand {
  const path = resolve(cwd, script);
  if (isDirectory(resolve(cwd)) && !isFile(path)) {
    throw new DuolaneError('not_found', `the script ${path} does not exist: check the path`);
  }
  return { file: process.execPath, args: [script, ...args] };
}

// Windows has no tests of its own here. The npm shims are read rather than run: a `.cmd` needs a
// shell, and no quoting keeps a prompt on its command line safe.
function shimTarget(shim: string): string {
  const target = /"%~?dp0%?\\([^"]+\.[cm]?js)"/i.exec(readFileSync(shim, 'utf8'))?.[1];
  if (target) return join(dirname(shim), target);
  throw new DuolaneError('invalid', `${shim} is not an npm shim: name the .exe or .js it runs`);
}

function findOnWindows({ command, env }: Asked): string {
  const path = Object.entries(env).find(([name]) => name.toUpperCase() === 'PATH')?.[1] ?? '';
  const candidates = path
    .split(delimiter)
    .flatMap((folder) => ['.exe', '.cmd'].map((ending) => join(folder, command + ending)));
  return candidates.find(isFile) ?? command;
}

/** Why the system refused to start it, in words; the system itself only says ENOENT. */
export function startError(reason: unknown, { command, cwd, env }: Asked): DuolaneError {
  if (reason instanceof DuolaneError) return reason;
  const cause = { cause: reason };
  const { code, message } = reason as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'EACCES' && code !== 'ENOTDIR') {
    const why = code === 'EAGAIN' || code === 'EMFILE' ? 'internal' : 'invalid';
    return new DuolaneError(why, `cannot start ${command}: ${message}`, cause);
  }
  const folder = resolve(cwd ?? '.');
  if (!isDirectory(folder)) {
    return exists(folder)
      ? new DuolaneError('invalid', `cwd ${folder} is not a directory`, cause)
      : new DuolaneError('not_found', `cwd ${folder} does not exist: create it first`, cause);
  }
  if (!may(folder, constants.X_OK)) {
    return new DuolaneError('invalid', `cwd ${folder} may not be entered by this user`, cause);
  }
  const isPath = /[\\/]/.test(command);
  const path = isPath ? resolve(folder, command) : command;
  if (code === 'EACCES') {
    const what = `${path} may not be executed: is it a program, and executable (chmod +x)?`;
    return new DuolaneError('invalid', what, cause);
  }
  if (!isPath) {
    const where = env['PATH'] === undefined ? 'env has no PATH' : `PATH=${env['PATH']}`;
    const what = `no executable ${command} (${where}): install it, or give its full path`;
    return new DuolaneError('not_found', what, cause);
  }
  const what = exists(path)
    ? `${path} exists, but the interpreter it asks for does not: see its first line`
    : `no executable at ${path}: check the path`;
  return new DuolaneError('not_found', what, cause);
}

const isFile = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isFile() === true;
const isDirectory = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
const exists = (path: string): boolean => may(path, constants.F_OK);

function may(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    // The question is whether it can be used; why not is said by the start.
    return false;
  }
}
