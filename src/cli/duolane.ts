#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { DuolaneError } from '../errors.ts';
import { EXIT, helpOf, readArgs, signalOf } from './command.ts';
import { COMMANDS } from './command-table.ts';
import { stripControlCharacters } from '../event/text/control-characters.ts';
import { openTerminal, type Terminal } from './terminal/terminal.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const stop = new AbortController();
const terminal = openTerminal((reason) => stop.abort(reason));

let interrupted: () => boolean = () => false;

// The first signal lets the command drain. The second one exits immediately; child processes end
// with this process.
function onSignal(name: NodeJS.Signals): void {
  if (name === 'SIGINT' && interrupted()) return;
  if (stop.signal.aborted) process.exit(EXIT.interrupted);
  stop.abort(new DuolaneError('canceled', `stopped by ${name}`, { cause: name }));
}
for (const name of SIGNALS) process.on(name, onSignal);

async function main(
  argv: readonly string[],
  { out, err }: Terminal,
): Promise<number | NodeJS.Signals> {
  const [name = '--help', ...rest] = argv;
  if (name === '--version' || name === '-V') {
    out.line(version());
    return EXIT.ok;
  }
  if (name === 'help' && rest[0] !== undefined) return main([rest[0], '--help'], terminal);
  if (name === 'help' || name === '--help' || name === '-h') {
    out.line(overview());
    return EXIT.ok;
  }
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!entry) {
    err.line(
      `duolane: unknown command "${stripControlCharacters(name)}"; available: ${Object.keys(COMMANDS).join(', ')}`,
    );
    return EXIT.usage;
  }
  const command = await entry.load();
  const { args, flags } = readArgs(name, command, rest);
  if (flags['help']) {
    out.line(helpOf(name, entry.summary, command));
    return EXIT.ok;
  }
  return command.run({
    args,
    flags,
    terminal,
    signal: stop.signal,
    onInterrupt: (handler) => (interrupted = handler),
  });
}

function overview(): string {
  const width = Math.max(...Object.keys(COMMANDS).map(({ length }) => length)) + 2;
  return [
    'duolane: serve any agent with a durable, resumable event stream.',
    '',
    'Usage: duolane <command> [options]',
    '',
    ...Object.entries(COMMANDS).map(([name, { summary }]) => `  ${name.padEnd(width)}${summary}`),
    '',
    'Run duolane <command> --help for the options of a command.',
    'Exit codes: 0 done, 1 failed or found a fault, 2 wrong arguments, 130 stopped (Ctrl-C), 143 terminated.',
    'NO_COLOR turns colours off; DUOLANE_DEBUG=1 adds the stack of an error.',
  ].join('\n');
}

const version = (): string =>
  (
    JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string;
    }
  ).version;

/** Prints an error in one line and returns its exit code. */
function reportError(error: unknown): number {
  if (stop.signal.aborted) return stopped();
  const { code, message } = DuolaneError.from(error);
  terminal.err.line(`duolane: ${stripControlCharacters(message)}`); // may contain text of a server
  if (process.env['DUOLANE_DEBUG'] && error instanceof Error) terminal.err.line(error.stack);
  return code === 'invalid' || code === 'not_found' ? EXIT.usage : EXIT.failed;
}

/** The exit code after a stop. A closed stdout (`| head`) is not a failure. */
function stopped(): number {
  const name = signalOf(stop.signal);
  if (name === undefined) return EXIT.ok;
  return name === 'SIGTERM' ? EXIT.terminated : EXIT.interrupted;
}

// Also prints errors of promises that a module of the user does not await.
process.on('uncaughtException', (error) => process.exit(reportError(error)));

const outcome = await main(process.argv.slice(2), terminal).catch(reportError);
await terminal.flush();
if (typeof outcome === 'string') {
  process.removeAllListeners(outcome);
  process.kill(process.pid, outcome);
} else {
  // Explicitly, since a module of the user may have left a timer or a socket open.
  process.exit(outcome);
}
