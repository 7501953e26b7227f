import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import { DuolaneError } from '../errors.ts';
import { settledWithin, sleep } from '../stream/abort.ts';
import { disposeOnce } from '../stream/dispose-once.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { ChildPipes } from './child-pipes.ts';
import { closeWhenSilent } from './close-when-silent.ts';
import { startError, resolveCommand } from './resolve-command.ts';
import { memoryTransport } from './memory-transport.ts';
import { freeChunk } from './free-chunk.ts';
import { StderrTail } from './stderr-tail.ts';
import { ProcessTree } from './process-tree.ts';
import type { Exit, ProcessOptions, ProcessTransport } from './types.ts';
import { holdInput, unwatch, watch } from './watchdog.ts';

const STDERR_BYTES = 64 * 1024;
/** How long the system may take to remove processes that got SIGKILL. */
const KILL_WAIT_MS = 5000;

/**
 * Starts a child in its own process group and returns immediately. If the child cannot be started,
 * `exited.startError` says why, on the next tick. Nothing of the child outlives this process, even
 * if this process is killed with kill -9 (see `watchdog.ts`).
 *
 * Disposing ends the input, sends SIGTERM after `graceMs` and SIGKILL after further `killMs`, to
 * the group and to descendants that left it. It resolves when all of them are gone, and rejects
 * with `timeout` and the pids of those that even SIGKILL did not end. If the child exits by itself,
 * the rest of its group is ended the same way.
 *
 * @example
 * ```ts
 * await using child = spawnProcess({ command: 'cat', args: [], env: buildEnv() });
 * child.write('hello\n');
 * child.endInput();
 * for await (const chunk of child.output) process.stdout.write(chunk);
 * ```
 */
export function spawnProcess(options: ProcessOptions): ProcessTransport {
  let child: ChildProcessWithoutNullStreams;
  const { markEnv } = options;
  const mark = markEnv === undefined ? undefined : ([markEnv, randomUUID()] as const);
  try {
    child = start(options, mark);
  } catch (error) {
    return unstarted(options, Promise.resolve([error]));
  }
  if (child.pid === undefined) return unstarted(options, once(child, 'error'));
  return new Child(child, child.pid, options, mark?.join('='));
}

function start(
  options: ProcessOptions,
  mark: readonly [string, string] | undefined,
): ChildProcessWithoutNullStreams {
  const { file, args } = resolveCommand(options);
  const { env, cwd } = options;
  return spawn(file, args, {
    ...(cwd !== undefined && { cwd }),
    env: { ...env, ...(mark && { [mark[0]]: mark[1] }) },
    stdio: 'pipe',
    detached: process.platform !== 'win32',
    windowsHide: true,
  });
}

function unstarted(options: ProcessOptions, failure: Promise<unknown[]>): ProcessTransport {
  const { transport, peer } = memoryTransport();
  transport.endInput();
  failure
    .then(([error]) => peer.exit({ code: null, startError: startError(error, options) }))
    .catch(reportUnexpected);
  return Object.assign(transport, { pid: undefined });
}

class Child extends ChildPipes implements ProcessTransport {
  readonly pid: number;
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #options: ProcessOptions;
  readonly #tree: ProcessTree;
  readonly #leaderExit: Promise<void>;
  #leaderGone = false;
  #treeGone = false;
  #stopping: Promise<void> | undefined;

  constructor(
    child: ChildProcessWithoutNullStreams,
    pid: number,
    options: ProcessOptions,
    mark: string | undefined,
  ) {
    super(child);
    this.#child = child;
    this.#options = options;
    this.#tree = new ProcessTree(pid, mark);
    this.pid = pid;
    child.on('error', () => {}); // A signal could not be sent: the start has succeeded already.
    const stderr = this.#keepStderr();
    this.#leaderExit = new Promise((resolve) => child.once('exit', () => resolve()));
    this.exited = this.#whenExited(stderr);
    watch(pid);
    if (options.holdInput) child.once('exit', holdInput(child.stdin));
  }

  release(chunk: Uint8Array): void {
    freeChunk(chunk);
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(async () => {
    this.discardUnread();
    await this.#stop();
    await this.exited;
  });

  #keepStderr(): { readonly tail: StderrTail; readonly closed: Promise<void> } {
    const { stderr } = this.#child;
    const { onStderr } = this.#options;
    const tail = new StderrTail(STDERR_BYTES);
    const decoder = new StringDecoder('utf8');
    stderr.on('error', () => {}); // 'close' follows.
    stderr.on('data', (chunk: Buffer) => {
      tail.push(chunk);
      onStderr?.(decoder.write(chunk));
    });
    const closed = new Promise<void>((resolve) => stderr.once('close', () => resolve()));
    return { tail, closed };
  }

  async #whenExited(stderr: {
    readonly tail: StderrTail;
    readonly closed: Promise<void>;
  }): Promise<Exit> {
    const child = this.#child;
    await this.#leaderExit;
    this.#leaderGone = true;
    this.closeAfterExit();
    const stderrPipe = child.stderr as Socket;
    closeWhenSilent(
      stderrPipe,
      () => stderrPipe.bytesRead,
      () => false,
    );
    // The caller of dispose gets the error of this stop.
    if (!this.#isOver()) this.#stop().catch(() => {});
    await stderr.closed;
    const { exitCode: code, signalCode: signal } = child;
    return { code, ...(signal !== null && { signal }), stderr: stderr.tail.toString() };
  }

  #stop(): Promise<void> {
    return (this.#stopping ??= this.#escalate());
  }

  async #escalate(): Promise<void> {
    const { graceMs = 2000, killMs = 5000 } = this.#options;
    this.endInput();
    if (await this.#overWithin(graceMs)) return;
    this.#tree.signal('SIGTERM');
    if (await this.#overWithin(killMs)) return;
    this.#tree.signal('SIGKILL');
    if (await this.#overWithin(KILL_WAIT_MS)) return;
    const pids = this.#tree.survivors().join(', ');
    throw new DuolaneError(
      'timeout',
      `SIGKILL timed out after ${KILL_WAIT_MS} ms: processes ${pids} still run; use ps to see what they wait for`,
    );
  }

  async #overWithin(ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    if (!this.#leaderGone) await settledWithin(this.#leaderExit, ms);
    // The other processes are not our children, so no event reports their end.
    for (let pause = 5; !this.#isOver(); pause = Math.min(2 * pause, 50)) {
      if (performance.now() >= deadline) return false;
      await sleep(pause);
    }
    return true;
  }

  /** Whether no process of the tree is left. Remembered, because their pids may be reused then. */
  #isOver(): boolean {
    if (this.#treeGone || !this.#leaderGone) return this.#treeGone;
    this.#treeGone = this.#tree.survivors().length === 0;
    if (this.#treeGone) unwatch(this.pid);
    return this.#treeGone;
  }
}
