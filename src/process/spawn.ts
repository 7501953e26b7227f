import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuolaneError } from '../errors.ts';
import { disposeOnce } from '../stream/dispose-once.ts';
import { reportUnexpected } from '../stream/report-unexpected.ts';
import { ByteQueue } from './byte-queue.ts';
import { closeWhenSilent } from './close-when-silent.ts';
import { startError, resolveCommand } from './resolve-command.ts';
import { memoryTransport } from './memory-transport.ts';
import { freeChunk } from './free-chunk.ts';
import { StderrTail } from './stderr-tail.ts';
import { ProcessTree } from './process-tree.ts';
import type { Exit, ProcessOptions, ProcessTransport } from './types.ts';
import { unwatch, watch } from './watchdog.ts';
import { WriteGate } from './write-gate.ts';

/** How much output may wait for its reader before the child is held back. */
const OUTPUT_BYTES = 1024 * 1024;
const STDERR_BYTES = 64 * 1024;
/** How long the system may take to remove what got SIGKILL. */
const KILL_WAIT_MS = 5000;

/**
 * Starts a child in a process group of its own and returns at once. A child that cannot be started
 * is told through `exited.startError`, on the next tick. Nothing of it outlives this process, even
 * if that dies by kill -9 (see `watchdog.ts`).
 *
 * Disposing ends the input, and after `graceMs` sends SIGTERM, after `killMs` more SIGKILL, to the
 * group and to descendants that left it. It resolves when they are gone, and rejects with `timeout`
 * naming those that even SIGKILL did not end. When the child exits by itself, what is left in its
 * group is ended the same way.
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

class Child implements ProcessTransport {
  readonly pid: number;
  readonly output: ByteQueue;
  readonly exited: Promise<Exit>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #options: ProcessOptions;
  readonly #tree: ProcessTree;
  readonly #gate = new WriteGate();
  readonly #leaderExit: Promise<void>;
  #disposed = false;
  #leaderGone = false;
  #treeGone = false;
  #stopping: Promise<void> | undefined;

  constructor(
    child: ChildProcessWithoutNullStreams,
    pid: number,
    options: ProcessOptions,
    mark: string | undefined,
  ) {
    this.#child = child;
    this.#options = options;
    this.#tree = new ProcessTree(pid, mark);
    this.pid = pid;
    child.on('error', () => {}); // a signal that could not be sent; the start has succeeded
    this.output = this.#readStdout();
    this.#guardStdin();
    const stderr = this.#keepStderr();
    this.#leaderExit = new Promise((resolve) => child.once('exit', () => resolve()));
    this.exited = this.#whenExited(stderr);
    watch(pid);
  }

  release(chunk: Uint8Array): void {
    freeChunk(chunk);
  }

  write(text: string | Uint8Array, onLost?: (reason: Error) => void): boolean {
    this.#gate.check();
    return this.#child.stdin.write(text, onLost && ((error) => error && onLost(lost(error))));
  }

  drained(): Promise<void> {
    return this.#gate.drained(this.#child.stdin.writableNeedDrain);
  }

  endInput(): void {
    this.#gate.close('the input of the process has been ended');
    this.#child.stdin.end();
  }

  readonly [Symbol.asyncDispose]: () => Promise<void> = disposeOnce(() => this.#dispose());

  async #dispose(): Promise<void> {
    this.#disposed = true;
    if (this.output.full) this.#discard();
    await this.#stop();
    await this.exited;
  }

  // Who disposes and does not read must not keep the child from writing its last words.
  #discard(): void {
    this.output.return().catch(reportUnexpected);
  }

  #readStdout(): ByteQueue {
    const { stdout } = this.#child;
    const output = new ByteQueue(OUTPUT_BYTES, () => stdout.resume());
    stdout.on('error', () => {}); // followed by 'close'
    stdout.on('data', (chunk: Buffer) => {
      if (output.push(chunk)) return;
      if (this.#disposed) this.#discard();
      else stdout.pause();
    });
    stdout.once('close', () => output.end());
    return output;
  }

  #guardStdin(): void {
    const { stdin } = this.#child;
    stdin.on('error', (error) => this.#gate.close('the process no longer reads its input', error));
    stdin.on('close', () => this.#gate.close('the process no longer reads its input'));
    stdin.on('drain', () => this.#gate.open());
  }

  #keepStderr(): { readonly tail: StderrTail; readonly closed: Promise<void> } {
    const { stderr } = this.#child;
    const { onStderr } = this.#options;
    const tail = new StderrTail(STDERR_BYTES);
    const decoder = new StringDecoder('utf8');
    stderr.on('error', () => {}); // followed by 'close'
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
    this.#gate.close('the process has exited and reads no more');
    const [stdout, stderrPipe] = [child.stdout as Socket, child.stderr as Socket];
    closeWhenSilent(
      stdout,
      () => stdout.bytesRead,
      () => this.output.full,
    );
    closeWhenSilent(
      stderrPipe,
      () => stderrPipe.bytesRead,
      () => false,
    );
    if (!this.#isOver()) this.#stop().catch(() => {}); // told to whoever disposes
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
    throw new DuolaneError('timeout', `SIGKILL did not end ${pids}: see what they wait for (ps)`);
  }

  async #overWithin(ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    if (!this.#leaderGone) {
      const timer = new AbortController();
      // The timer is aborted when the process exits first.
      await Promise.race([this.#leaderExit, sleep(ms, undefined, timer).catch(() => {})]);
      timer.abort();
    }
    // The others are not our children: nothing tells us when they end.
    for (let pause = 5; !this.#isOver(); pause = Math.min(2 * pause, 50)) {
      if (performance.now() >= deadline) return false;
      await sleep(pause);
    }
    return true;
  }

  /** Nothing is left of the tree. Remembered: from then on its numbers may belong to others. */
  #isOver(): boolean {
    if (this.#treeGone || !this.#leaderGone) return this.#treeGone;
    this.#treeGone = this.#tree.survivors().length === 0;
    if (this.#treeGone) unwatch(this.pid);
    return this.#treeGone;
  }
}

const lost = (cause: Error): DuolaneError =>
  new DuolaneError('closed', 'the process no longer reads its input', { cause });
