import type { Readable, Writable } from 'node:stream';
import { DuolaneError } from '../../errors.ts';
import { ChildPipes } from '../../process/child-pipes.ts';
import type { Exit, Transport } from '../../process/types.ts';
import { settledWithin } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Launch } from '../options/options.ts';

/** The members that the host needs of a process that the app started, e.g. in a container. */
export interface SpawnedProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly exitCode: number | null;
  kill(signal: NodeJS.Signals): boolean;
  once(
    event: 'exit',
    listener: (code: number | null, signal: NodeJS.Signals | null) => void,
  ): unknown;
  once(event: 'error', listener: (error: Error) => void): unknown;
}

/** How to start the agent CLI. `signal` aborts when the process must be killed. */
export interface SpawnOptions extends Launch {
  readonly signal: AbortSignal;
}

export type SpawnClaudeCodeProcess = (options: SpawnOptions) => SpawnedProcess;

/** How long a process may take to report its exit after SIGKILL, as in `spawnProcess`. */
const KILL_WAIT_MS = 5000;

/**
 * A transport over a process that the app started. It is ended in the same steps as a process of
 * `spawnProcess`, but only by its own `kill`: the app decides what that reaches, and reads stderr.
 */
export function customProcessTransport(
  spawn: SpawnClaudeCodeProcess,
  launch: Launch,
  { graceMs = 2000, killMs = 5000 }: { readonly graceMs?: number; readonly killMs?: number } = {},
): Transport {
  const killing = new AbortController();
  const child = spawn({ ...launch, signal: killing.signal });
  if (!child?.stdin || !child.stdout)
    throw new DuolaneError(
      'invalid',
      "spawnClaudeCodeProcess returned a process without stdin or stdout: expected both; spawn it with stdio ['pipe', 'pipe', …]",
    );
  const pipes = new ChildPipes(child);
  let isEnding = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      pipes.closeAfterExit();
      resolve({ code, stderr: '', ...(signal !== null && { signal }) });
    });
    const onError = (error: Error): void => {
      child.once('error', onError); // An error event without a listener would end the program.
      // While we end the process, an error only means that a signal could not be sent: the process
      // has started, and its exit follows.
      if (isEnding) return;
      const message = `cannot start the agent: ${error.message}`;
      pipes.destroyOutput();
      resolve({
        code: null,
        stderr: '',
        startError: new DuolaneError('not_found', message, { cause: error }),
      });
    };
    child.once('error', onError);
  });
  return Object.assign(pipes, {
    exited,
    [Symbol.asyncDispose]: disposeOnce(async () => {
      pipes.discardUnread();
      pipes.endInput();
      if (await settledWithin(exited, graceMs)) return;
      isEnding = true;
      child.kill('SIGTERM');
      if (await settledWithin(exited, killMs)) return;
      killing.abort();
      child.kill('SIGKILL');
      if (await settledWithin(exited, KILL_WAIT_MS)) return;
      // The output may stay open as well, and its reader would wait forever.
      pipes.destroyOutput();
      throw new DuolaneError(
        'timeout',
        `kill('SIGKILL') timed out after ${KILL_WAIT_MS} ms: the process of spawnClaudeCodeProcess did not emit 'exit'; emit it when the process is gone`,
      );
    }),
  });
}
