import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Exit, Transport } from '../../src/process/types.ts';

/** A minimal transport over a child process of Node. */
export function childTransport(args: readonly string[]): Transport & { kill(): void } {
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  let stderr = '';
  child.stderr.on('data', (chunk) => (stderr += String(chunk)));
  child.stdin.on('error', () => {});
  const exited = once(child, 'close').then(([code, signal]): Exit => ({
    code: code as number | null,
    stderr,
    ...(signal !== null && { signal: signal as string }),
  }));
  return {
    output: child.stdout,
    write: (text) => child.stdin.write(text),
    drained: async () => {
      await once(child.stdin, 'drain');
    },
    endInput: () => child.stdin.end(),
    exited,
    kill: () => child.kill('SIGKILL'),
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await exited;
    },
  };
}
