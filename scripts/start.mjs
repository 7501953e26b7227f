// `npm start`: brings everything up to date, then serves the examples with the page, or runs the
// command with the given arguments (`npm start -- demo`).
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
  const open = process.stdout.isTTY ? ['--open'] : []; // open a browser only for a person at a terminal
  if (args.length > 0) startCommand(args);
  // The AI Doctor runs at human speed, and the page offers a tour with it.
  else startCommand(['serve', ...examples(), ...open], { DUOLANE_TOUR: '1' });
} else {
  say('Cannot start: dist/cli/duolane.js is missing after the build; check src/cli/duolane.ts.');
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

function startCommand(args, settings = {}) {
  const env = { ...process.env, ...settings };
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: 'inherit', env });
  // The terminal sends Ctrl-C to the child too. It shuts down, and this process exits with its
  // code.
  process.on('SIGINT', () => {});
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('close', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}
