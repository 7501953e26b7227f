// What `npm test` and `npm start` need before anything is installed: Node alone, no dependency.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
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

// The reader of our output may exit (`npm test | head`): the run continues and keeps its exit code.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error) => {
    if (error.code !== 'EPIPE') throw error;
  });

export function say(text) {
  process.stdout.write(`${text}\n`);
}

/**
 * Ends the running children on a signal, and kills them on the second one. Call the returned
 * function to restore the default handling of signals.
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
 * Runs a program to its end. This process forwards its output (`quiet`: only collects it), because
 * a child that writes to a closed pipe would be killed. Never rejects: a program that cannot be
 * started has code 127.
 */
export function run(command, args, { cwd = ROOT, env = process.env, quiet = false } = {}) {
  return new Promise((resolve) => {
    // A separate process group, so that a signal also reaches the processes that the child started.
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
        // A child that ends because of a signal to us has no result: the signal handler exits.
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

/** The npm that started this process, else the one on the PATH. */
export function runNpm(args, options) {
  const started = process.env.npm_execpath;
  return started?.endsWith('.js') && existsSync(started)
    ? run(process.execPath, [started, ...args], options)
    : run('npm', args, options);
}

/**
 * Whether `node_modules` matches `package-lock.json`. npm writes a lock file of what it has
 * installed as its last step, so an interrupted install, or one of an older lock file, is detected.
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

/**
 * Why an install failed: the end of its output, and `unreachable` if the registry was the reason.
 */
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
 * Installs what is missing in a directory with a lock file; fast if nothing is missing. Several
 * processes may call it concurrently: one installs, the others wait. Returns `undefined`, or why it
 * failed.
 */
export async function install(directory, onStart = () => {}) {
  if (isInstalled(directory)) return undefined;
  mkdirSync(join(ROOT, '.cache'), { recursive: true });
  const name = relative(ROOT, directory).replaceAll(/[\\/]/g, '+') || 'root';
  return withLock(join(ROOT, '.cache', `install-${name}.lock`), async () => {
    if (isInstalled(directory)) return undefined;
    onStart();
    // `--include=dev`: with a production setting of the machine npm would skip the tools.
    const args = ['ci', '--include=dev', '--prefer-offline', '--fetch-retries=1'];
    const result = await runNpm(args, { cwd: directory, quiet: true });
    if (result.code === 0 && !isInstalled(directory))
      return explainInstall({
        code: 1,
        output: 'npm installed other packages than the lock file lists',
      });
    return result.code === 0 ? undefined : explainInstall(result);
  });
}

const HEARTBEAT_MS = 2000;
const STALE_MS = 30_000;

/**
 * Runs `work` while holding a lock directory. A holder that has exited, or has not renewed the lock
 * for 30 seconds, loses it to the next process.
 */
export async function withLock(path, work, { staleMs = STALE_MS } = {}) {
  while (!tryMakeDirectory(path)) {
    if (isStale(path, staleMs)) breakLock(path, staleMs);
    else await sleep(100);
  }
  await writeFile(join(path, 'pid'), String(process.pid));
  const heartbeat = setInterval(() => {
    const now = new Date();
    utimes(path, now, now).catch(() => {}); // the lock was removed: nothing to renew
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

// Two processes that find the same lock stale must not both remove it: the second would remove the
// lock that the first has just taken. So removing needs a lock too, and a second check.
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

/** What the build reads, and what it writes. */
const INPUTS = ['package-lock.json', 'package.json', 'src', 'examples', 'web'];
const STAMP = join(ROOT, 'dist', '.build-stamp');

/**
 * Brings `dist` up to date: the compiled sources, the examples, and the page. Starts no tool if
 * neither the inputs nor the output changed since the last build. The code is 0 on success.
 */
export async function build(options = { quiet: true }) {
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === buildStamp())
    return { code: 0, output: '' };
  rmSync(STAMP, { force: true });
  const inputs = inputStamp();
  matchDist(join(ROOT, 'src'), join(ROOT, 'dist'), ['web', 'examples']);
  matchDist(join(ROOT, 'examples'), join(ROOT, 'dist', 'examples'));
  const results = await Promise.all([buildSources(options), buildPage(options)]);
  const code = Math.max(...results.map((result) => result.code));
  // A source that was saved during the build may or may not be in it: the next build decides.
  if (code === 0 && inputs === inputStamp()) writeFileSync(STAMP, buildStamp());
  return {
    code,
    output: results.map((result) => (result.code === 0 ? '' : result.output)).join(''),
  };
}

/** Identifies the state of inputs and output by paths, sizes and times. */
function buildStamp() {
  return `${inputStamp()} ${stampOf(files('dist').filter((file) => join(ROOT, file) !== STAMP))}`;
}

function inputStamp() {
  const settings = readdirSync(ROOT).filter((name) => /^tsconfig.*\.json$/.test(name));
  return stampOf([...INPUTS, ...settings].flatMap(files));
}

function stampOf(paths) {
  const hash = createHash('sha256').update(process.version);
  for (const path of paths.sort()) {
    const { size, mtimeMs } = statSync(join(ROOT, path));
    hash.update(`${path}\0${size}\0${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

/** The files below a path of the repository. Tests are no input of the build. */
function files(path) {
  if (!statSync(join(ROOT, path)).isDirectory()) return [path];
  return readdirSync(join(ROOT, path), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.test.ts'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
}

/** The examples import the package by its name, so they are compiled after it. */
async function buildSources(options) {
  const built = await runTool('typescript', ['-p', 'tsconfig.build.json'], options);
  if (built.code !== 0) return built;
  makeExecutable();
  return runTool('typescript', ['-p', 'tsconfig.examples.json'], options);
}

/**
 * Makes the commands of the package executable, so that a clone can start them as npm's links do.
 */
function makeExecutable() {
  const { bin = {} } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  for (const file of Object.values(bin)) chmodSync(join(ROOT, file), 0o755);
}

/** Builds the page, one bundle of `web`, its imports from `src`, and locked packages. */
async function buildPage(options) {
  const built = statSync(join(ROOT, 'dist', 'web', 'index.html'), { throwIfNoEntry: false });
  const inputs = ['package-lock.json', ...['web', 'src'].flatMap((at) => within(at))];
  const isFresh = (file) => statSync(join(ROOT, file)).mtimeMs <= built.mtimeMs;
  if (built && inputs.every(isFresh)) return { code: 0, output: '' };
  // Tests build too. Their NODE_ENV would give a development bundle that contains paths of this
  // machine.
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
 * Makes `dist` match the sources. The incremental compiler trusts its build info: it neither
 * removes the output of a deleted source nor restores deleted output. So this function removes the
 * former, and the source maps of earlier versions, and deletes the build info in the latter case.
 * `others` are folders of `dist` with another source.
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
    if (!sources.has(file.replace(/\.(js|d\.ts)$/, ''))) rmSync(join(dist, file));
  const complete = [...sources].every((name) => outputs.includes(`${name}.js`));
  if (!complete) rmSync(join(dist, '.tsbuildinfo'), { force: true });
}

function list(directory) {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' });
}
