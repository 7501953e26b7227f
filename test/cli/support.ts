import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

export const COMMAND: string = fileURLToPath(new URL('../../dist/cli/duolane.js', import.meta.url));
export const PATH_AGENT: string = fileURLToPath(
  new URL('../fixtures/path-agent.mjs', import.meta.url),
);

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Run under a pseudo terminal: what it prints arrives as on a screen. */
  readonly pty?: boolean;
  /** Another installation of the command. */
  readonly command?: string;
  /** Under the pseudo terminal: this line of a shell instead. */
  readonly shell?: string;
}

/** An empty folder to run the command in; everything that was started in it ends with it. */
export class Place implements AsyncDisposable {
  readonly path: string;
  readonly #running: Running[] = [];

  static async open(): Promise<Place> {
    return new Place(await mkdtemp(join(tmpdir(), 'duolane-cli-')));
  }

  private constructor(path: string) {
    this.path = path;
  }

  file(name: string): string {
    return join(this.path, name);
  }

  async write(name: string, text: string): Promise<string> {
    await writeFile(this.file(name), text);
    return this.file(name);
  }

  start(args: readonly string[], options: StartOptions = {}): Running {
    const { env = {}, pty = false, command = COMMAND, shell } = options;
    const line = [process.execPath, command, ...args];
    const [file = '', ...rest] = pty
      ? // Without `exec`, a shell in between would remember Ctrl-C and leave with a code of its own.
        ['script', '-q', '-e', '-c', shell ?? `exec ${line.map(quoted).join(' ')}`, '/dev/null']
      : line;
    const child = spawn(file, rest, {
      cwd: this.path,
      env: {
        PATH: process.env['PATH'],
        HOME: this.path,
        CLAUDE_CONFIG_DIR: this.file('config'),
        TERM: 'xterm',
        ...env,
      },
      stdio: 'pipe',
    });
    const running = new Running(child);
    this.#running.push(running);
    return running;
  }

  /** Runs to the end with no input. */
  async run(args: readonly string[], options?: StartOptions): Promise<Ended> {
    const running = this.start(args, options);
    running.child.stdin?.end();
    return running.end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#running) child.kill('SIGKILL');
    await Promise.all(this.#running.map(async (each) => each.end()));
    await rm(this.path, { recursive: true, force: true, maxRetries: 5 });
  }
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Running {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #closed: Promise<unknown>;
  #over = false;
  #wake: () => void = () => {};

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdin?.on('error', () => {});
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.#wake();
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.#wake();
    });
    this.#closed = once(child, 'close').then(() => {
      this.#over = true;
      this.#wake();
    });
  }

  /** Waits until one of its streams says so; fails if it ends before. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.stdout) ?? pattern.exec(this.stderr);
      if (found) return found;
      if (this.#over) throw new Error(`it never said ${pattern}:\n${this.stdout}\n${this.stderr}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  type(text: string): void {
    this.child.stdin?.write(text);
  }

  async end(): Promise<Ended> {
    await this.#closed;
    const { exitCode, signalCode } = this.child;
    return { code: exitCode, signal: signalCode, stdout: this.stdout, stderr: this.stderr };
  }
}

/** Checks that the command printed no stack. */
export function expectNoStack({ stdout, stderr }: Ended): void {
  expect(`${stdout}${stderr}`).not.toMatch(/^\s+at .*(\.[cm]?[jt]s|node:)/m);
}

const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`;

/** Why a pseudo terminal is missing; `script` of util-linux creates one. */
export const missingPty: string | undefined =
  spawnSync('script', ['-q', '-e', '-c', 'exit 7', '/dev/null']).status === 7
    ? undefined
    : 'no `script` of util-linux to make a pseudo terminal with';
