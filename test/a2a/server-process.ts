import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('../fixtures/a2a-server.ts', import.meta.url));

/** A server in a process of its own, which can be killed and asked for its memory. */
export interface ServerProcess extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  rss(): Promise<number>;
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
}

export async function startServer(
  file: string,
  kind: 'plain' | 'resumable' | 'continues' | 'flood',
  port = 0,
): Promise<ServerProcess> {
  const child = fork(SERVER, [file, String(port), kind], {
    execArgv: ['--expose-gc', '--import', 'tsx'],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const { url } = await reply<{ url: string }>(child);
  const stop = async (signal: 'SIGKILL' | 'SIGTERM'): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  return {
    url,
    port: Number(new URL(url).port),
    async rss() {
      child.send('memory');
      return (await reply<{ rss: number }>(child)).rss;
    },
    stop,
    [Symbol.asyncDispose]: () => stop('SIGKILL'),
  };
}

async function reply<T>(child: ChildProcess): Promise<T> {
  const stop = new AbortController();
  try {
    return await Promise.race([
      once(child, 'message', stop).then(([message]: unknown[]) => message as T),
      once(child, 'exit', stop).then(([code]: unknown[]) => {
        throw new Error(`the server left with ${String(code)}`);
      }),
    ]);
  } finally {
    stop.abort();
  }
}
