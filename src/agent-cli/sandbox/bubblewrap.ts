import { accessSync, constants, existsSync, lstatSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, sep } from 'node:path';
import { DuolaneError } from '../../errors.ts';
import { type Exit, spawnProcess } from '../../process/index.ts';
import { isInsideDirectory, realPath } from '../permissions/path-rules.ts';
import { asPattern, type Protection, ProtectedFiles } from './protected-files.ts';
import type { SandboxPolicy } from './sandbox-settings.ts';
import { seccompFilter } from './seccomp.ts';

/** How to start a command inside the sandbox. */
export interface SandboxedCommand {
  readonly command: string;
  readonly args: readonly string[];
  /** The caller writes it to stdin and then closes stdin. */
  readonly input: Uint8Array;
  /**
   * Call it when the command and all processes that it started have ended. Returns the new paths of
   * files that were renamed because another program would have run them or their content.
   */
  readonly release: () => Promise<readonly string[]>;
}

export interface SandboxOptions {
  readonly policy: SandboxPolicy;
  readonly cwd: string;
  readonly home: string;
  /** The CLI's own files: its config directory with the transcripts, and settings files. */
  readonly own: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * Credentials in the home directory, and histories and browser profiles, which contain some. They
 * are hidden: a command does not need them.
 */
const CREDENTIALS = [
  '.aws',
  '.azure',
  '.bash_history',
  '.boto',
  '.cargo/credentials',
  '.cargo/credentials.toml',
  '.claude',
  '.claude.json',
  '.codex',
  '.composer/auth.json',
  '.config/chromium',
  '.config/containers/auth.json',
  '.config/doctl',
  '.config/gcloud',
  '.config/gh',
  '.config/git/credentials',
  '.config/glab-cli',
  '.config/google-chrome',
  '.config/hub',
  '.config/op',
  '.config/pypoetry/auth.toml',
  '.config/rclone',
  '.databrickscfg',
  '.docker',
  '.duolane',
  '.gem/credentials',
  '.gemini',
  '.git-credentials',
  '.gnupg',
  '.kube',
  '.local/share/keyrings',
  '.m2/settings.xml',
  '.mozilla',
  '.my.cnf',
  '.mylogin.cnf',
  '.netrc',
  '.npmrc',
  '.oci',
  '.password-store',
  '.pgpass',
  '.pypirc',
  '.s3cfg',
  '.ssh',
  '.terraform.d',
  '.terraformrc',
  '.vault-token',
  '.yarnrc.yml',
  '.zsh_history',
];
const SYSTEM_SECRETS = ['/etc/shadow', '/etc/shadow-', '/etc/gshadow', '/etc/sudoers'];
/**
 * Mounted as empty folders: they contain temporary files of other programs and sockets of services.
 */
const EMPTIED = ['/tmp', '/var/tmp', '/run', '/var/run'];
const TEMP_BYTES = 1024 * 1024 * 1024;

type Access = 'empty' | 'write' | 'read' | 'hide';
/** From loose to strict. If a path gets two kinds of access, the stricter one wins. */
const STRICTER: readonly Access[] = ['empty', 'write', 'read', 'hide'];

/**
 * Runs commands in bubblewrap. The file system is read-only, except for the working directories and
 * a temporary folder of the call. The command has no network, no view of other processes and no
 * access to sockets of this machine, and every process that the command starts ends with it. The
 * protected paths are determined for each call.
 */
export class Sandbox {
  readonly policy: SandboxPolicy;
  readonly #options: SandboxOptions;
  readonly #filter: Uint8Array;
  /**
   * The real paths of the policy, resolved once at the start. A path may contain a link in a folder
   * that a command can write: resolving it for each call would let a command choose what it may
   * write.
   */
  readonly #writable: readonly string[];
  readonly #readOnly: readonly string[];
  readonly #hidden: readonly string[];
  readonly #protected: ProtectedFiles;
  /** The path of bwrap, found once: a command could later put another `bwrap` on the PATH. */
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
    // Keep the unresolved paths, too: a link may be changed later, and its new target is closed
    // then.
    this.#readOnly = [...new Set([...readOnly, ...readOnly.map((path) => realPath(path))])];
    this.#hidden = [...new Set([...hidden, ...hidden.map((path) => realPath(path))])];
  }

  /** Throws `unsupported` where bubblewrap does not work: then no command may run at all. */
  static async open(options: SandboxOptions): Promise<Sandbox> {
    const filter = process.platform === 'linux' ? seccompFilter() : undefined;
    if (!filter) {
      throw unavailable(
        `requires Linux on x64 or arm64 with bubblewrap, not ${process.platform} on ${process.arch}`,
      );
    }
    const bwrap = findProgram('bwrap', options);
    if (bwrap === undefined)
      throw unavailable('bwrap was not found on the PATH; install bubblewrap');
    const sandbox = new Sandbox(options, filter, bwrap);
    const cwd = realPath(options.cwd);
    for (const path of options.policy.writable)
      // A missing path inside the working directory is allowed: a command may create it, and naming
      // it only keeps it from being protected.
      if (!existsSync(path) && !isInsideDirectory(cwd, realPath(path)))
        throw new DuolaneError(
          'not_found',
          `sandbox.filesystem.allowWrite "${path}" not found; create it first`,
        );
    await sandbox.#probe();
    return sandbox;
  }

  /**
   * Patterns of the paths that the file tools of this process may not write (`readOnly`), or
   * neither read nor write (`hidden`). `directories`: the current working directories.
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
   * Prepares a command for the sandbox. `directories`: the real paths of the current working
   * directories. Throws `unsupported` if the command cannot be contained.
   */
  async enclose(text: string, directories: readonly string[]): Promise<SandboxedCommand> {
    if (directories.some((directory) => isInsideDirectory(realPath(directory), this.#bwrap)))
      throw unavailable(`"${this.#bwrap}" is in a folder that commands can write`);
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
        // bwrap reads the filter from stdin. The command then gets /dev/null as its stdin.
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

  /** Runs `true` in the sandbox. Throws `unsupported` if that fails. */
  async #probe(): Promise<void> {
    const { cwd, env } = this.#options;
    const { command, args, input, release } = await this.enclose('true', [realPath(cwd)]);
    let exit: Exit;
    try {
      await using child = spawnProcess({ command, args, cwd, env: pathOf(env), graceMs: 10_000 });
      try {
        child.write(input);
      } catch {
        // The process has exited already; its exit code and stderr say why.
      }
      child.endInput();
      exit = await child.exited;
    } finally {
      await release();
    }
    const { code, stderr, startError } = exit;
    if (startError) throw unavailable(`bubblewrap did not start: ${startError.message}`);
    if (code !== 0) {
      const why = stderr.trim().split('\n').at(-1) || `exit code ${code}`;
      throw unavailable(`bubblewrap does not work on this machine: ${why}`);
    }
  }

  /** The mount arguments. Parents come before their children, so that the longer path decides. */
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
        throw unavailable(
          `"${path}" was replaced by a link to "${realPath(path)}"; restart the session`,
        );
      if (['/', '/proc', '/dev', '/sys', '/run', '/etc', '/usr'].includes(path))
        throw unavailable(`"${path}" must not be writable for commands; use another directory`);
      if (existsSync(path)) set(path, 'write');
    }
    for (const path of pinned) set(path, 'read');
    for (const path of this.#readOnly) {
      if (existsSync(path)) set(realPath(path), 'read');
      else if (writable.some((folder) => isInsideDirectory(folder, realPath(path))))
        // Only an existing path can be mounted, and a command could create this one.
        throw unavailable(`filesystem.denyWrite "${path}" was not found; create it first`);
    }
    const { home, own } = this.#options;
    const credentials = CREDENTIALS.map((name) => join(home, name));
    for (const path of [...credentials, ...own, ...this.#hidden, ...SYSTEM_SECRETS])
      if (existsSync(path)) set(realPath(path), 'hide');
    // Mount every folder between a closed path and the writable folder that contains it. A command
    // could otherwise rename such a folder and put a link there: the closed path would be open, and
    // the next call would make the link's target writable. A mounted folder cannot be renamed.
    for (const [path, kind] of access) {
      if (kind === 'empty') continue;
      for (const parent of parentsOf(path, writable))
        if (!access.has(parent)) access.set(parent, 'write');
    }
    // The folders of nested repositories are not mounted, so that a command can move folders of a
    // project. The mount of a file in them moves along.
    for (const path of nested)
      if (![...access].some(([parent, kind]) => isClosed(kind) && isInsideDirectory(parent, path)))
        access.set(path, 'read');
    const sorted = [...access].toSorted(([a], [b]) => depth(a) - depth(b));
    const system = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'];
    return [
      ...system,
      // /dev/shm is memory: without a limit a command could use all memory of the machine.
      '--size',
      String(TEMP_BYTES),
      '--tmpfs',
      '/dev/shm',
      '--remount-ro',
      '/dev',
      // Needed if the CLI runs as root: files such as /proc/sys/kernel/core_pattern check only the
      // user, not a capability, and affect the complete machine.
      '--remount-ro',
      '/proc',
      ...sorted.flatMap(([path, kind]) => mount(path, kind)),
      // Hidden folders become read-only last, since a working directory may be mounted inside one.
      ...sorted.flatMap(([path, kind]) =>
        kind === 'hide' && isFolder(path) ? ['--remount-ro', path] : [],
      ),
    ];
  }
}

/**
 * The real path of a program on the PATH. Skips folders that commands can write: a command could
 * have put a program of its own there.
 */
function findProgram(name: string, { cwd, policy, env }: SandboxOptions): string | undefined {
  const writable = [cwd, ...policy.writable].map((path) => realPath(path));
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    const path = realPath(join(folder, name));
    if (!isAbsolute(folder) || writable.some((each) => isInsideDirectory(each, path))) continue;
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // The program is not in this folder.
    }
  }
  return undefined;
}

const depth = (path: string): number => path.split(sep).length;

/** The folders between a path and the writable folder that contains it. */
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
    const isLink = EMPTIED.includes(path) && lstatSync(path).isSymbolicLink();
    return statSync(path).isDirectory() && !isLink;
  } catch {
    // A missing path needs no mount.
    return false;
  }
}

const pathOf = (env: SandboxOptions['env']): Record<string, string> =>
  env['PATH'] === undefined ? {} : { PATH: env['PATH'] };

const unavailable = (why: string): DuolaneError =>
  new DuolaneError('unsupported', `cannot run commands in the sandbox of the settings: ${why}`);
