// For CI: installs the Debian packages that some suites need, where that is possible, and names the
// ones that are missing. It never fails: a suite without its package is skipped with the reason.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const PACKAGES = {
  'nats-server': () => hasProgram('nats-server'),
  'python3-grpcio': () => hasModule('grpc'),
  'python3-protobuf': () => hasModule('google.protobuf'),
  bubblewrap: () => hasProgram('bwrap'),
};
const INSTALL_LIMIT_MS = 120_000;
const APT = ['-o', 'Acquire::Retries=0', '-o', 'Acquire::http::Timeout=15', '-q', '-y'];

const missing = () => Object.keys(PACKAGES).filter((name) => !PACKAGES[name]());

const wanted = missing();
const refusal = wanted.length === 0 ? undefined : whyNot();
let failure = refusal;
if (wanted.length > 0 && refusal === undefined) {
  failure = install(wanted);
  // A fresh image has no package lists.
  if (failure !== undefined && run('apt-get', [...APT, 'update']) === undefined)
    failure = install(wanted);
}
const left = missing();
for (const name of wanted.filter((one) => !left.includes(one))) say(`installed ${name}`);
for (const name of left) say(`MISSING ${name}: ${failure ?? 'it was installed but does not run'}`);
if (left.length === 0) say(`system packages: all ${Object.keys(PACKAGES).length} are installed`);

function whyNot() {
  if (process.platform !== 'linux') return 'this system is not Linux';
  if (process.getuid() !== 0) return 'only root may install packages';
  return hasProgram('apt-get') ? undefined : 'apt-get is missing';
}

function install(names) {
  return run('apt-get', [...APT, 'install', '--no-install-recommends', ...names]);
}

/** Runs a command; returns `undefined`, or why it failed. */
function run(command, args) {
  try {
    execFileSync(command, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: INSTALL_LIMIT_MS,
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
    return undefined;
  } catch (error) {
    const lines = String(error.stderr ?? '').split('\n');
    return lines.find((line) => line.startsWith('E: ')) ?? error.message.split('\n', 1)[0];
  }
}

function hasProgram(name) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/bin'];
  return folders.some((folder) => folder !== '' && existsSync(join(folder, name)));
}

// Debian's Python may have the module even if another Python comes first in the PATH.
function hasModule(name) {
  return ['python3', '/usr/bin/python3'].some(
    (python) => run(python, ['-c', `import ${name}`]) === undefined,
  );
}

function say(text) {
  process.stdout.write(`${text}\n`);
}
