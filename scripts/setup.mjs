// What the two commands need before anything is installed, so: plain Node, no dependency.
import { spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { rm, utimes, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join, relative, sep } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url));

const isWindows = process.platform === 'win32';
const children = new Set();
let interrupted = false;

// Whoever read our output may leave (`npm test | head`): the run goes on and keeps its exit code.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error) => {
    if (error.code !== 'EPIPE') throw error;
  });

export function say(text) {
  process.stdout.write(`${text}\n`);
}

/**
 * Ends what runs when we are told to end; the second signal does not ask any more. Calling what it
 * returns gives the signals back their usual meaning.
 */
export function endChildrenOnSignal() {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  const end = (signal) => {
    for (const child of children) kill(child, interrupted ? 'SIGKILL' : signal);
    if (interrupted) return;
    interrupted = true;
    say(`\n${signal}: stopping.`);
    const closed = Promise.all([...children].map((child) => child.closed));
    void Promise.race([closed, sleep(5000)]).finally(() => {
      for (const child of children) kill(child, 'SIGKILL');
      process.exit(128 + constants.signals[signal]);
    });
  };
  for (const signal of signals) process.on(signal, end);
  return () => {
    for (const signal of signals) process.off(signal, end);
  };
}

function kill(child, signal) {
  try {
    if (isWindows) child.kill(signal);
    else process.kill(-child.pid, signal);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error;
  }
}

/**
 * Runs a program to its end. Its output goes through us (`quiet`: is only collected), because a
 * child that writes to a pipe nobody reads would die of it. Never rejects: a program that cannot
 * be started has code 127.
 */
export function run(command, args, { cwd = ROOT, env = process.env, quiet = false } = {}) {
  return new Promise((resolve) => {
    // A process group of its own, so that a signal reaches what the child has started as well.
    const child = spawn(command, args, {
      cwd,
      env: process.stdout.isTTY ? { FORCE_COLOR: '1', ...env } : env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: !isWindows,
      shell: isWindows && !command.endsWith('.exe'),
    });
    let output = '';
    child.closed = new Promise((closed) => {
      const finish = (code) => {
        children.delete(child);
        closed();
        // What ends because we were interrupted is no result: the signal handler exits.
        if (!interrupted) resolve({ code, output });
      };
      child.on('error', (error) => {
        output += `${error.message}\n`;
        finish(127);
      });
      child.on('close', (code) => finish(code ?? 1));
    });
    children.add(child);
    for (const [from, to] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ])
      from.setEncoding('utf8').on('data', (text) => {
        if (quiet) output += text;
        else to.write(text);
      });
  });
}

/** Runs a tool of this package's `node_modules` by its package name. */
export function runTool(name, args, options) {
  const home = join(ROOT, 'node_modules', name);
  const { bin } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8'));
  const entry = typeof bin === 'string' ? bin : (bin.tsc ?? bin[name]);
  return run(process.execPath, [join(home, entry), ...args], options);
}

/** npm as it started us, or the one on the path. */
export function runNpm(args, options) {
  const started = process.env.npm_execpath;
  return started?.endsWith('.js') && existsSync(started)
    ? run(process.execPath, [started, ...args], options)
    : run('npm', args, options);
}

/**
 * Whether `node_modules` is what `package-lock.json` says. npm leaves a lock file of what it has
 * installed as its last act, so an install that was cut off, or one of an older lock, shows.
 */
export function isInstalled(directory) {
  const wanted = packages(join(directory, 'package-lock.json'));
  const found = packages(join(directory, 'node_modules', '.package-lock.json'));
  if (wanted === undefined || found === undefined) return false;
  for (const [path, { version }] of Object.entries(found))
    if (wanted[path]?.version !== version) return false;
  return Object.entries(wanted).every(
    ([path, { optional }]) => path === '' || optional || existsSync(join(directory, path)),
  );
}

function packages(lockFile) {
  return existsSync(lockFile) ? JSON.parse(readFileSync(lockFile, 'utf8')).packages : undefined;
}

const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|ERR_SOCKET_TIMEOUT)\b/;

/** Why an install failed: its last words, and `unreachable` if the registry was the reason. */
export function explainInstall({ code, output }) {
  const network = UNREACHABLE.exec(output)?.[1];
  if (network !== undefined)
    return {
      unreachable: true,
      reason: `the npm registry cannot be reached (${network}); connect once and run this again`,
    };
  if (code === 127)
    return { unreachable: false, reason: 'npm was not found; install Node.js with npm' };
  return { unreachable: false, reason: `npm ci failed:\n${output.trim().slice(-4000)}` };
}

/**
 * Installs what is missing in a directory with a lock file; quick when nothing is. Several
 * processes may call it at once: one installs, the others wait. `undefined`, or why it failed.
 */
export async function install(directory, onStart = () => {}) {
  if (isInstalled(directory)) return undefined;
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  const name = relative(ROOT, directory).replaceAll(/[\\/]/g, '+') || 'root';
  return withLock(join(ROOT, '.cache', `install-${name}.lock`), async () => {
    if (isInstalled(directory)) return undefined;
    onStart();
    // `--include=dev`: a production setting of the machine must not leave the tools out.
    const args = ['ci', '--include=dev', '--prefer-offline', '--fetch-retries=1'];
    const result = await runNpm(args, { cwd: directory, quiet: true });
    if (result.code === 0 && !isInstalled(directory))
      return explainInstall({ code: 1, output: 'it left other packages than the lock file lists' });
    return result.code === 0 ? undefined : explainInstall(result);
  });
}

const HEARTBEAT_MS = 2000;
const STALE_MS = 30_000;

/**
 * Runs `work` while holding a lock directory. A holder that died, or has given no sign for
 * 30 seconds, loses the lock to whoever comes next.
 */
export async function withLock(path, work, { staleMs = STALE_MS } = {}) {
  while (!tryMakeDirectory(path)) {
    if (isStale(path, staleMs)) breakLock(path, staleMs);
    else await sleep(100);
  }
  await writeFile(join(path, 'pid'), String(process.pid));
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {}); // gone: nothing to keep alive
  }, HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(path, { recursive: true, force: true });
  }
}

function isStale(path, staleMs) {
  const age = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  if (age === undefined) return false; // just released
  if (Date.now() - age > staleMs) return true;
  try {
    process.kill(Number(readFileSync(join(path, 'pid'), 'utf8')) || process.pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

// Two who find the same lock stale must not both remove it: the second would remove the lock that
// the first has just taken. So removing needs a lock too, and a second look.
function breakLock(path, staleMs) {
  const breaking = `${path}.break`;
  if (!tryMakeDirectory(breaking)) {
    const age = statSync(breaking, { throwIfNoEntry: false })?.mtimeMs;
    if (age !== undefined && Date.now() - age > STALE_MS) rmSync(breaking, { recursive: true });
    return;
  }
  if (isStale(path, staleMs)) rmSync(path, { recursive: true, force: true });
  rmSync(breaking, { recursive: true, force: true });
}

function tryMakeDirectory(path) {
  try {
    mkdirSync(path);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Brings `dist` up to date: the compiled sources and with them the examples, and the page where it
 * is stale. The code is 0 if all went well.
 */
export async function build(options = { quiet: true }) {
  matchDist(join(ROOT, 'src'), join(ROOT, 'dist'), ['web', 'examples']);
  matchDist(join(ROOT, 'examples'), join(ROOT, 'dist', 'examples'));
  const results = await Promise.all([buildSources(options), buildPage(options)]);
  return {
    code: Math.max(...results.map(({ code }) => code)),
    output: results.map(({ code, output }) => (code === 0 ? '' : output)).join(''),
  };
}

/** The examples import the package by its name, so they are compiled against what it is now. */
async function buildSources(options) {
  const built = await runTool('typescript', ['-p', 'tsconfig.build.json'], options);
  if (built.code !== 0) return built;
  makeExecutable();
  return runTool('typescript', ['-p', 'tsconfig.examples.json'], options);
}

/** The commands of the package can be started from a clone as npm's links start them. */
function makeExecutable() {
  const { bin = {} } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  for (const file of Object.values(bin)) chmodSync(join(ROOT, file), 0o755);
}

/** The page is one bundle of `web`, of what it takes from `src`, and of locked packages. */
async function buildPage(options) {
  const built = statSync(join(ROOT, 'dist', 'web', 'index.html'), { throwIfNoEntry: false });
  const inputs = ['package-lock.json', ...['web', 'src'].flatMap((at) => within(at))];
  const isFresh = (file) => statSync(join(ROOT, file)).mtimeMs <= built.mtimeMs;
  if (built && inputs.every(isFresh)) return { code: 0, output: '' };
  // The tests build too, and their NODE_ENV would give a bundle for development, with our paths in it.
  const env = { ...process.env, NODE_ENV: 'production' };
  const args = ['build', '-c', 'web/vite.config.ts', '--logLevel', 'warn'];
  return runTool('vite', args, { ...options, env });
}

function within(directory) {
  return list(join(ROOT, directory))
    .filter((file) => !file.endsWith('.test.ts'))
    .map((file) => join(directory, file));
}

/**
 * The incremental compiler trusts its notes: it neither removes the output of a source that is
 * gone nor restores output that somebody deleted. So we do the one, and for the other drop the notes.
 * `others` are folders of `dist` that come from elsewhere.
 */
export function matchDist(src, dist, others = []) {
  if (!existsSync(dist)) return;
  const sources = new Set(
    list(src)
      .filter((file) => /(?<!\.test)\.ts$/.test(file))
      .map((file) => file.slice(0, -'.ts'.length)),
  );
  const outputs = list(dist).filter(
    (file) => /\.(js|js\.map|d\.ts)$/.test(file) && !others.includes(file.split(sep)[0]),
  );
  for (const file of outputs)
    if (!sources.has(file.replace(/\.(js|js\.map|d\.ts)$/, ''))) rmSync(join(dist, file));
  const complete = [...sources].every((name) => outputs.includes(`${name}.js`));
  if (!complete) rmSync(join(dist, '.tsbuildinfo'), { force: true });
}

function list(directory) {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' });
}
