import { accessSync, constants, existsSync, lstatSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, sep } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { type Exit, spawnProcess } from '../../process/index.ts';
import { isInsideDirectory, realPath } from '../permissions/path-rules.ts';
import { asPattern, type Protection, ProtectedFiles } from './protected-files.ts';
import type { SandboxPolicy } from './sandbox-settings.ts';
import { seccompFilter } from './seccomp.ts';

/** What a command is started with. */
export interface SandboxedCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** Written to its input, which is then ended. */
  readonly input: Uint8Array;
  /**
   * Call it when the command has ended, with all that it started. Returns the new paths of files that
   * were renamed because another program would have run them, or what is in them.
   */
  readonly release: () => Promise<readonly string[]>;
}

export interface SandboxOptions {
  readonly policy: SandboxPolicy;
  readonly cwd: string;
  readonly home: string;
  /** The CLI's own files: its config with the transcripts, and files with settings. */
  readonly own: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Credentials in a home, which a command has no use for. */
const CREDENTIALS = [
  '.aws',
  '.azure',
  '.cargo/credentials.toml',
  '.claude',
  '.claude.json',
  '.config/gcloud',
  '.config/gh',
  '.docker',
  '.duolane',
  '.git-credentials',
  '.gnupg',
  '.kube',
  '.netrc',
  '.npmrc',
  '.password-store',
  '.pypirc',
  '.ssh',
];
const SYSTEM_SECRETS = ['/etc/shadow', '/etc/shadow-', '/etc/gshadow', '/etc/sudoers'];
/** Emptied: temporary files of others, and sockets of services. */
const EMPTIED = ['/tmp', '/var/tmp', '/run', '/var/run'];
const TEMP_BYTES = 1024 * 1024 * 1024;

type Access = 'empty' | 'write' | 'read' | 'hide';
/** Of two that name one path, the later one wins. */
const STRICTER: readonly Access[] = ['empty', 'write', 'read', 'hide'];

/**
 * Runs commands in bubblewrap: the file system read-only but for the working directories and a
 * temporary folder of the call, no network, no other processes, no sockets of this machine, and an
 * end for everything that the command started. Which paths are closed is looked up for each call.
 */
export class Sandbox {
  readonly policy: SandboxPolicy;
  readonly #options: SandboxOptions;
  readonly #filter: Uint8Array;
  /**
   * What the paths of the policy led to at the start. A path may lead through a link in a folder that
   * a command writes: to follow it for each call would let a command choose what it may write.
   */
  readonly #writable: readonly string[];
  readonly #readOnly: readonly string[];
  readonly #hidden: readonly string[];
  readonly #protected: ProtectedFiles;
  /** The program, found once: a command could put another one of its name on the PATH later. */
  readonly #bwrap: string;

  private constructor(options: SandboxOptions, filter: Uint8Array, bwrap: string) {
    this.policy = options.policy;
    this.#options = options;
    this.#filter = filter;
    this.#bwrap = bwrap;
    const { writable, readOnly, hidden } = options.policy;
    this.#writable = writable.map((path) => realPath(path));
    this.#protected = new ProtectedFiles({
      home: realPath(options.home),
      writable: this.#writable,
    });
    // As they are given, too: what a link leads to later is closed as well.
    this.#readOnly = [...new Set([...readOnly, ...readOnly.map((path) => realPath(path))])];
    this.#hidden = [...new Set([...hidden, ...hidden.map((path) => realPath(path))])];
  }

  /** Throws `unsupported` where commands cannot be enclosed: then nothing may run at all. */
  static async open(options: SandboxOptions): Promise<Sandbox> {
    const filter = process.platform === 'linux' ? seccompFilter() : undefined;
    if (!filter) {
      throw unavailable(
        `it needs Linux on x64 or arm64 with bubblewrap, not ${process.platform} on ${process.arch}`,
      );
    }
    const bwrap = findProgram('bwrap', options);
    if (bwrap === undefined)
      throw unavailable('bubblewrap cannot be found on the PATH; install bwrap');
    const sandbox = new Sandbox(options, filter, bwrap);
    const cwd = realPath(options.cwd);
    for (const path of options.policy.writable)
      // Inside of the working directory a command may make it: named so that it is not protected.
      if (!existsSync(path) && !isInsideDirectory(cwd, realPath(path)))
        throw new DuolaneError(
          'not_found',
          `sandbox.filesystem.allowWrite "${path}" not found; make it first`,
        );
    await sandbox.#probe();
    return sandbox;
  }

  /**
   * Patterns of paths that no tool of this process may write either, and of those that it may not
   * read. `directories`: the working directories now.
   */
  closed(directories: readonly string[]): {
    readonly readOnly: readonly string[];
    readonly hidden: readonly string[];
  } {
    const { home, own } = this.#options;
    const hidden = [...CREDENTIALS.map((name) => join(home, name)), ...own, ...this.#hidden];
    return {
      readOnly: [
        ...this.#protected.rules([...new Set([...directories, ...this.#writable])]),
        ...this.#readOnly.map(asPattern),
      ],
      hidden: hidden.map(asPattern),
    };
  }

  /**
   * `directories`: the working directories now, by their real paths. Throws `unsupported` for what
   * cannot be enclosed.
   */
  async enclose(text: string, directories: readonly string[]): Promise<SandboxedCommand> {
    if (directories.some((directory) => isInsideDirectory(realPath(directory), this.#bwrap)))
      throw unavailable(`"${this.#bwrap}" is in a folder that a command may write`);
    const writable = [...new Set([...directories, ...this.#writable])];
    const protection = await this.#protected.protect(writable);
    let mounts: string[];
    try {
      mounts = this.#mounts(writable, protection);
    } catch (reason) {
      await protection.release();
      throw reason;
    }
    return {
      command: this.#bwrap,
      release: protection.release,
      args: [
        ...mounts,
        '--unshare-user',
        '--unshare-pid',
        '--unshare-ipc',
        '--unshare-uts',
        '--unshare-cgroup-try',
        ...(this.policy.network === 'off' ? ['--unshare-net'] : []),
        '--disable-userns',
        '--cap-drop',
        'ALL',
        '--die-with-parent',
        '--new-session',
        '--chdir',
        realPath(this.#options.cwd),
        // The filter comes through stdin, which the command gets as an empty one.
        '--seccomp',
        '0',
        '--',
        '/bin/sh',
        '-c',
        'exec </dev/null; exec /bin/sh -c "$1"',
        'sh',
        text,
      ],
      input: this.#filter,
    };
  }

  async #probe(): Promise<void> {
    const { cwd, env } = this.#options;
    const { command, args, input, release } = await this.enclose('true', [realPath(cwd)]);
    let exit: Exit;
    try {
      await using child = spawnProcess({ command, args, cwd, env: pathOf(env), graceMs: 10_000 });
      try {
        child.write(input);
      } catch {
        // It has ended already: why is in its exit.
      }
      child.endInput();
      exit = await child.exited;
    } finally {
      await release();
    }
    const { code, stderr, startError } = exit;
    if (startError) throw unavailable(`bubblewrap cannot be started: ${startError.message}`);
    if (code !== 0) {
      const why = stderr.trim().split('\n').at(-1) || `exit code ${code}`;
      throw unavailable(`bubblewrap cannot enclose a command here: ${why}`);
    }
  }

  /** Parents before what is in them: the mount of the longer path decides. */
  #mounts(writable: readonly string[], { pinned, nested }: Protection): string[] {
    const access = new Map<string, Access>();
    const set = (path: string, wanted: Access): void => {
      const had = access.get(path);
      if (had === undefined || STRICTER.indexOf(wanted) > STRICTER.indexOf(had))
        access.set(path, wanted);
    };
    for (const path of EMPTIED) if (isFolder(path)) set(path, 'empty');
    for (const path of writable) {
      if (realPath(path) !== path)
        throw unavailable(`"${path}" was replaced and is now "${realPath(path)}"; start again`);
      if (['/', '/proc', '/dev', '/sys', '/run', '/etc', '/usr'].includes(path))
        throw unavailable(`"${path}" cannot be a writable folder of a command`);
      if (existsSync(path)) set(path, 'write');
    }
    for (const path of pinned) set(path, 'read');
    for (const path of this.#readOnly) {
      if (existsSync(path)) set(realPath(path), 'read');
      else if (writable.some((folder) => isInsideDirectory(folder, realPath(path))))
        // Only what exists can be mounted, and a command could make this one.
        throw unavailable(`filesystem.denyWrite "${path}" cannot be found; make it first`);
    }
    const { home, own } = this.#options;
    const credentials = CREDENTIALS.map((name) => join(home, name));
    for (const path of [...credentials, ...own, ...this.#hidden, ...SYSTEM_SECRETS])
      if (existsSync(path)) set(realPath(path), 'hide');
    // A folder that holds one of these could be renamed, and a link be made in its place: a closed one
    // would be open then, and the next call would make what the link leads to writable. A folder that
    // is a mount cannot be renamed.
    for (const [path, kind] of access) {
      if (kind === 'empty') continue;
      for (const parent of parentsOf(path, writable))
        if (!access.has(parent)) access.set(parent, 'write');
    }
    // Not those of repositories below: a folder of a project can be moved, and the mount goes with it.
    for (const path of nested)
      if (![...access].some(([parent, kind]) => isClosed(kind) && isInsideDirectory(parent, path)))
        access.set(path, 'read');
    const sorted = [...access].toSorted(([a], [b]) => depth(a) - depth(b));
    const system = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'];
    return [
      ...system,
      // Both are memory: without a limit a command could use up that of the machine.
      '--size',
      String(TEMP_BYTES),
      '--tmpfs',
      '/dev/shm',
      '--remount-ro',
      '/dev',
      // For a CLI that runs as root: files such as /proc/sys/kernel/core_pattern ask for the user
      // alone, not for a capability, and reach the whole machine.
      '--remount-ro',
      '/proc',
      ...sorted.flatMap(([path, kind]) => mount(path, kind)),
      // Last: a working directory may be inside of a hidden folder.
      ...sorted.flatMap(([path, kind]) =>
        kind === 'hide' && isFolder(path) ? ['--remount-ro', path] : [],
      ),
    ];
  }
}

/** A program on the PATH, by its real path; not one that a command could have written. */
function findProgram(name: string, { cwd, policy, env }: SandboxOptions): string | undefined {
  const writable = [cwd, ...policy.writable].map((path) => realPath(path));
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    const path = realPath(join(folder, name));
    if (!isAbsolute(folder) || writable.some((each) => isInsideDirectory(each, path))) continue;
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

const depth = (path: string): number => path.split(sep).length;

/** The folders between a path and the writable one that it is in. */
function parentsOf(path: string, writable: readonly string[]): string[] {
  const found: string[] = [];
  const inside = (parent: string): boolean =>
    writable.some((folder) => folder !== parent && isInsideDirectory(folder, parent));
  for (let parent = dirname(path); inside(parent); parent = dirname(parent)) found.push(parent);
  return found;
}

function mount(path: string, access: Access): string[] {
  switch (access) {
    case 'empty':
      return ['--size', String(TEMP_BYTES), '--tmpfs', path];
    case 'write':
      return ['--bind', path, path];
    case 'read':
      return ['--ro-bind', path, path];
    case 'hide':
      return isFolder(path)
        ? ['--size', '65536', '--tmpfs', path]
        : ['--ro-bind', '/dev/null', path];
  }
}

const isClosed = (access: Access): boolean => access === 'hide' || access === 'read';

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory() && !(EMPTIED.includes(path) && isLink(path));
  } catch {
    // What does not exist needs no rule.
    return false;
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    // What does not exist is not a link.
    return false;
  }
}

const pathOf = (env: SandboxOptions['env']): Record<string, string> =>
  env['PATH'] === undefined ? {} : { PATH: env['PATH'] };

const unavailable = (why: string): DuolaneError =>
  new DuolaneError(
    'unsupported',
    `cannot run commands: the setting "sandbox" is enabled and ${why}`,
  );
