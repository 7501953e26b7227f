import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { DuolaneError } from '../errors.ts';
import type { ProcessOptions } from './types.ts';

/** The file and arguments that are executed. */
export interface ResolvedCommand {
  readonly file: string;
  readonly args: readonly string[];
}

type CommandOptions = Pick<ProcessOptions, 'command' | 'args' | 'cwd' | 'env'>;

const SCRIPT = /\.[cm]?[jt]s$/i;

/**
 * Resolves a command: this Node runs a script, the target of a Windows shim is run in its place,
 * anything else is executed directly. Throws `not_found` or `invalid`.
 */
export function resolveCommand(options: CommandOptions): ResolvedCommand {
  const { command, args } = options;
  if (SCRIPT.test(command)) return runScript(options, command);
  if (process.platform !== 'win32') return { file: command, args };
  const found = /[\\/.]/.test(command) ? command : findOnWindows(options);
  return /\.(cmd|bat)$/i.test(found)
    ? runScript(options, shimTarget(found))
    : { file: found, args };
}

function runScript({ args, cwd = '.' }: CommandOptions, script: string): ResolvedCommand {
  const path = resolve(cwd, script);
  if (isDirectory(resolve(cwd)) && !isFile(path)) {
    throw new DuolaneError('not_found', `script "${path}" not found; check the path`);
  }
  return { file: process.execPath, args: [script, ...args] };
}

// We have no tests on Windows. The npm shims are read instead of executed: a `.cmd` needs a shell,
// and no quoting makes a prompt on its command line safe.
function shimTarget(shim: string): string {
  const target = /"%~?dp0%?\\([^"]+\.[cm]?js)"/i.exec(readFileSync(shim, 'utf8'))?.[1];
  if (target) return join(dirname(shim), target);
  throw new DuolaneError(
    'invalid',
    `invalid command "${shim}": expected an npm shim; give the .exe or .js that it runs`,
  );
}

function findOnWindows({ command, env }: CommandOptions): string {
  const path = Object.entries(env).find(([name]) => name.toUpperCase() === 'PATH')?.[1] ?? '';
  const candidates = path
    .split(delimiter)
    .flatMap((folder) => ['.exe', '.cmd'].map((ending) => join(folder, command + ending)));
  return candidates.find(isFile) ?? command;
}

/** Explains why the system could not start a command; the system itself only reports ENOENT. */
export function startError(reason: unknown, { command, cwd, env }: CommandOptions): DuolaneError {
  if (reason instanceof DuolaneError) return reason;
  const cause = { cause: reason };
  const { code, message } = reason as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'EACCES' && code !== 'ENOTDIR') {
    const why = code === 'EAGAIN' || code === 'EMFILE' ? 'internal' : 'invalid';
    return new DuolaneError(why, `cannot start "${command}": ${message}`, cause);
  }
  const folder = resolve(cwd ?? '.');
  if (!isDirectory(folder)) {
    return exists(folder)
      ? new DuolaneError('invalid', `invalid cwd "${folder}": expected a directory`, cause)
      : new DuolaneError('not_found', `cwd "${folder}" not found; create it first`, cause);
  }
  if (!may(folder, constants.X_OK)) {
    return new DuolaneError(
      'invalid',
      `invalid cwd "${folder}": expected a directory that this user may enter`,
      cause,
    );
  }
  const isPath = /[\\/]/.test(command);
  const path = isPath ? resolve(folder, command) : command;
  if (code === 'EACCES') {
    const what = `cannot execute "${path}": permission denied; is it a program, and executable (chmod +x)?`;
    return new DuolaneError('invalid', what, cause);
  }
  if (!isPath) {
    const where = env['PATH'] === undefined ? 'env has no PATH' : `PATH=${env['PATH']}`;
    const what = `command "${command}" not found (${where}); install it, or give its full path`;
    return new DuolaneError('not_found', what, cause);
  }
  const what = exists(path)
    ? `interpreter of "${path}" not found; check the first line of the script`
    : `command "${path}" not found; check the path`;
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
    // The caller only needs to know whether it is possible; the start reports the reason.
    return false;
  }
}
