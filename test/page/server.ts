import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const COMMAND = fileURLToPath(new URL('../../dist/cli/duolane.js', import.meta.url));

/** `duolane serve` with a log in a file. It can be killed and restarted on the same port. */
export interface TestServer extends AsyncDisposable {
  readonly url: string;
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Starts a server. Agents are names of fixtures or of samples of the package. */
export async function startServer(
  agents: readonly string[],
  flags: readonly string[] = [],
  settings: Readonly<Record<string, string>> = {},
): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'duolane-page-'));
  const modules = agents.map((name) => {
    const fixture = fileURLToPath(new URL(`../fixtures/${name}.mjs`, import.meta.url));
    return existsSync(fixture) ? fixture : name;
  });
  let child: ChildProcess;
  let url = '';
  const start = async (): Promise<void> => {
    const port = url === '' ? '0' : new URL(url).port;
    const options = ['--json', '--store', join(folder, 'tasks.sqlite'), '--port', port, ...flags];
    child = spawn(process.execPath, [COMMAND, 'serve', ...modules, ...options], {
      cwd: folder,
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        CLAUDE_CONFIG_DIR: join(folder, 'config'),
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    const gone = once(child, 'exit').then(() => {
      throw new Error('the server exited before it printed its address');
    });
    const [line] = (await Promise.race([once(lines, 'line'), gone])) as [string];
    gone.catch(() => {}); // a later exit is handled by `kill`
    ({ url } = JSON.parse(line) as { url: string });
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  };
  await start();
  return {
    get url() {
      return url;
    },
    kill,
    start,
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
