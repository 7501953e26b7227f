// `npm start`: brings everything up to date, then serves the examples with the page, or runs the
// command with what you pass on (`npm start -- demo`).
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { build, endChildrenOnSignal, install, ROOT, say } from './setup.mjs';

const COMMAND = join(ROOT, 'dist', 'cli', 'duolane.js');

const problem = await prepare();
if (problem !== undefined) {
  say(problem);
  process.exitCode = 1;
} else if (existsSync(COMMAND)) {
  const args = process.argv.slice(2);
  const open = process.stdout.isTTY ? ['--open'] : []; // nobody looks at a pipe
  startCommand(args.length > 0 ? args : ['serve', ...examples(), ...open]);
} else {
  say('Duolane is built. Its command is not written yet, so there is nothing to start.');
  say('README.md says what is there already; `npm test` shows it at work.');
}

function examples() {
  const folder = join(ROOT, 'dist', 'examples');
  return readdirSync(folder).filter((name) => existsSync(join(folder, name, 'agent.js')));
}

async function prepare() {
  const stopListening = endChildrenOnSignal();
  const missing = await install(ROOT, () => say('Installing what is missing (npm ci) …'));
  if (missing !== undefined) return `Cannot install: ${missing.reason}`;
  const slow = setTimeout(() => say('Building what has changed …'), 3000);
  const { code, output } = await build();
  clearTimeout(slow);
  stopListening();
  return code === 0 ? undefined : `Cannot build:\n${output.trimEnd()}`;
}

function startCommand(args) {
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: 'inherit' });
  // Ctrl-C reaches the child by itself: it closes its own house, and we leave with its code.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('close', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
