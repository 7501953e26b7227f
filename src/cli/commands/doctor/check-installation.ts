import { existsSync } from 'node:fs';
import { access, constants, mkdtemp, rm, stat, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DuolaneError } from '../../../errors.ts';
import { officialCli } from '../../../host/launch/cli-launch.ts';
import { listen } from '../../../http/node-server.ts';
import { exampleNames } from '../../agents/load-agent.ts';

/** The check of one thing that the commands need. */
export interface Check {
  readonly name: string;
  readonly state: 'ok' | 'missing' | 'optional';
  /** What was found. */
  readonly what: string;
  /** What does not work without it. */
  readonly cost?: string;
  readonly fix?: string;
}

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));
const NODE = [20, 19] as const;
const TEMP_BYTES = 512 * 1024 * 1024;

export interface InstallationOptions {
  readonly port: number;
  readonly store: string;
}

/** Checks everything that the commands need. Writes only to the temporary folder. */
export async function checkInstallation({
  port,
  store,
}: InstallationOptions): Promise<readonly Check[]> {
  return [
    node(),
    built(),
    samples(),
    page(),
    await sqlite(),
    await storeFolder(store),
    await freePort(port),
    vendorCli(),
    ...PARTS.map(part),
    await temporarySpace(),
    watchdog(),
  ];
}

function node(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const good = major > NODE[0] || (major === NODE[0] && minor >= NODE[1]);
  const what = `Node ${process.versions.node}`;
  if (good) return { name: 'node', state: 'ok', what };
  return {
    name: 'node',
    state: 'missing',
    what: `${what} is too old`,
    cost: 'this version is not tested',
    fix: `install Node ${NODE.join('.')} or newer`,
  };
}

function built(): Check {
  const files = ['agent-cli/main.js', 'cli/duolane.js', 'task/sqlite/worker.js'];
  const absent = files.filter((file) => !existsSync(join(ROOT, 'dist', file)));
  if (absent.length === 0) return { name: 'build', state: 'ok', what: 'the package is built' };
  return {
    name: 'build',
    state: 'missing',
    what: `not built: ${absent.join(', ')}`,
    cost: 'the command, the agent CLI and the store do not start',
    fix: 'npm run build',
  };
}

function samples(): Check {
  const names = exampleNames();
  if (names.length > 0) return { name: 'samples', state: 'ok', what: names.join(', ') };
  return {
    name: 'samples',
    state: 'optional',
    what: 'no sample is built',
    cost: 'duolane demo needs the path of a module',
    fix: 'npm run build',
  };
}

function page(): Check {
  if (existsSync(join(ROOT, 'dist/web/index.html')))
    return { name: 'page', state: 'ok', what: 'the page is built' };
  return {
    name: 'page',
    state: 'optional',
    what: 'the page is not built',
    cost: 'duolane serve has A2A, but no page',
    fix: 'npm start, or npm run build',
  };
}

async function sqlite(): Promise<Check> {
  const builtIn = process.getBuiltinModule('node:sqlite') !== undefined;
  const driver = builtIn ? 'node:sqlite' : '@photostructure/sqlite';
  try {
    const { openDatabase } = await import('../../../task/sqlite/driver.ts');
    const database = openDatabase(':memory:');
    database.exec('SELECT 1');
    database.close();
    return { name: 'sqlite', state: 'ok', what: `the store in a file works (${driver})` };
  } catch (error) {
    return {
      name: 'sqlite',
      state: 'missing',
      what: `${driver} cannot open a database: ${DuolaneError.from(error).message}`,
      cost: 'tasks are kept in memory only, with --store memory',
      fix: builtIn
        ? `install another build of Node ${process.versions.node}: its module node:sqlite does not work`
        : 'use Node 22.13 or newer, which has its own, or install the driver: npm install @photostructure/sqlite@1',
    };
  }
}

async function storeFolder(store: string): Promise<Check> {
  let folder = dirname(resolve(store));
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  try {
    if (!(await stat(folder)).isDirectory()) throw new Error('it is a file');
    await access(folder, constants.W_OK);
    return { name: 'store', state: 'ok', what: `${store} can be written` };
  } catch {
    // The check names the folder; the error of the system is not needed to fix it.
    return {
      name: 'store',
      state: 'missing',
      what: `${folder} cannot be written`,
      cost: 'duolane serve cannot store its tasks there',
      fix: 'choose another file with --store, or make the folder writable',
    };
  }
}

async function freePort(port: number): Promise<Check> {
  try {
    const server = await listen(async () => new Response(), { port });
    await server[Symbol.asyncDispose]();
    const what = port === 0 ? 'this machine can listen on loopback' : `port ${port} is free`;
    return { name: 'port', state: 'ok', what };
  } catch (error) {
    return {
      name: 'port',
      state: 'missing',
      what: DuolaneError.from(error).message,
      cost: 'duolane serve cannot start there',
      fix: 'stop the program that listens there, or choose another port with --port',
    };
  }
}

function vendorCli(): Check {
  try {
    return { name: 'vendor-cli', state: 'ok', what: officialCli() };
  } catch {
    // The CLI is optional, so its absence is not a failure.
    return {
      name: 'vendor-cli',
      state: 'optional',
      what: 'no CLI of a vendor was found in node_modules or in PATH',
      cost: 'only the open agent CLI of Duolane can be used',
      fix: 'npm install @anthropic-ai/claude-agent-sdk, or pass pathToClaudeCodeExecutable',
    };
  }
}

interface Part {
  readonly name: string;
  readonly package: string;
  /** What it is for. */
  readonly what: string;
  readonly cost: string;
}

const PARTS: readonly Part[] = [
  {
    name: 'postgres',
    package: 'pg',
    what: 'the store that replicas share',
    cost: '--store postgres://… does not work; tasks are stored in a file, by one server',
  },
  {
    name: 'telemetry',
    package: '@opentelemetry/api',
    what: 'spans and metrics for a collector',
    cost: 'nothing is sent to OpenTelemetry; the page and traces still work',
  },
  {
    name: 'duckdb',
    package: '@duckdb/node-api',
    what: 'the engine of the text-to-sql sample',
    cost: 'that sample does not work; the package has 70 MB, and nothing else needs it',
  },
];

/** Looks for an optional package where its users resolve it: beside the package, or in peers/. */
function part({ name, package: wanted, what, cost }: Part): Check {
  const found = ['', `peers/${name}/`].some((folder) => {
    try {
      return createRequire(join(ROOT, folder, 'package.json')).resolve(wanted) !== '';
    } catch {
      // A package that cannot be resolved is not installed.
      return false;
    }
  });
  if (found) return { name, state: 'ok', what: `${wanted}: ${what}` };
  const fix = `npm install ${wanted}`;
  return { name, state: 'optional', what: `${wanted} is not installed`, cost, fix };
}

async function temporarySpace(): Promise<Check> {
  const folder = tmpdir();
  const cost = 'messages for a slow reader are queued there; without space the run fails';
  try {
    const probe = await mkdtemp(join(folder, 'duolane-doctor-'));
    await rm(probe, { recursive: true });
    const { bavail, bsize } = await statfs(folder);
    const free = bavail * bsize;
    const what = `${(free / 2 ** 30).toFixed(1)} GiB free in ${folder}`;
    if (free >= TEMP_BYTES) return { name: 'temp', state: 'ok', what };
    return { name: 'temp', state: 'missing', what, cost, fix: 'free some space, or set TMPDIR' };
  } catch (error) {
    const what = `${folder} cannot be written: ${DuolaneError.from(error).message}`;
    return { name: 'temp', state: 'missing', what, cost, fix: 'set TMPDIR to a writable folder' };
  }
}

function watchdog(): Check {
  if (process.platform !== 'win32' && existsSync('/bin/sh'))
    return {
      name: 'watchdog',
      state: 'ok',
      what: 'child processes end with this process, even after kill -9',
    };
  return {
    name: 'watchdog',
    state: 'optional',
    what: '/bin/sh was not found',
    cost: 'after a kill -9 of the host, agent processes may stay',
    fix: 'end them yourself, or use a system with a shell',
  };
}
