import type { Readable, Writable } from 'node:stream';
import { DuolaneError } from '../../errors.ts';
import { closeWhenSilent } from '../../process/close-when-silent.ts';
import type { Exit, Transport } from '../../process/types.ts';
import { WriteGate } from '../../process/write-gate.ts';
import { settledWithin } from '../../stream/abort.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Launch } from '../options/options.ts';

/** A process that the app started itself, in a container or far away: what of it we need. */
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

/** `signal` aborts when the process is to be killed. */
export interface SpawnOptions extends Launch {
  readonly signal: AbortSignal;
}

const DEAF = 'the process no longer reads its input';

export type SpawnClaudeCodeProcess = (options: SpawnOptions) => SpawnedProcess;

/**
 * A transport over a process of the app's own. It is ended as ours are, but by its `kill` alone: what
 * that reaches is the app's matter, and so is its stderr.
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
      "spawnClaudeCodeProcess must return a process with stdin and stdout: spawn it with stdio ['pipe', 'pipe', …]",
    );
  const { stdin, stdout } = child;
  const gate = new WriteGate();
  stdin.on('error', (error) => gate.close(DEAF, error));
  stdin.on('close', () => gate.close(DEAF));
  stdin.on('drain', () => gate.open());
  stdout.on('error', () => {}); // the end of it; the exit says why
  let received = 0;
  let isEnding = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signal) => {
      gate.close('the process has exited and reads no more');
      // Its own children may keep stdout open.
      closeWhenSilent(
        stdout,
        () => received,
        () => stdout.readableLength > 0,
      );
      resolve({ code, stderr: '', ...(signal !== null && { signal }) });
    });
    const failed = (error: Error): void => {
      child.once('error', failed); // one without a listener would end the program
      // A signal that could not be sent, or the one that we sent: it has started, and its exit follows.
      if (isEnding) return;
      const startError = new DuolaneError(
        'not_found',
        `the agent could not be started: ${error.message}`,
        { cause: error },
      );
      stdout.destroy();
      resolve({ code: null, stderr: '', startError });
    };
    child.once('error', failed);
  });
  return {
    output: bytesOf(stdout, (length) => (received += length)),
    exited,
    write(text, onLost) {
      gate.check();
      return stdin.write(text, (error) => error && onLost?.(error));
    },
    drained: () => gate.drained(stdin.writableNeedDrain),
    endInput() {
      gate.close('the input of the process has been ended');
      stdin.end();
    },
    [Symbol.asyncDispose]: disposeOnce(async () => {
      stdin.end();
      if (await settledWithin(exited, graceMs)) return;
      isEnding = true;
      child.kill('SIGTERM');
      if (await settledWithin(exited, killMs)) return;
      killing.abort();
      child.kill('SIGKILL');
      if (await settledWithin(exited, killMs)) return;
      // Its output may stay open as well, and a reader of it must not wait for ever.
      stdout.destroy();
      throw new DuolaneError(
        'timeout',
        `the process of spawnClaudeCodeProcess did not exit within ${killMs} ms after kill('SIGKILL'); emit 'exit' when it is gone`,
      );
    }),
  };
}

async function* bytesOf(
  stdout: Readable,
  onRead: (length: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of stdout) {
      const bytes = Buffer.from(chunk as Uint8Array | string);
      onRead(bytes.length);
      yield bytes;
    }
  } catch {
    // A pipe that breaks is the end of it; the exit says why.
  }
}
