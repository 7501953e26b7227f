#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { DuolaneError } from '../errors.ts';
import { helpOf, readArgs, type Command } from './command.ts';
import { openTerminal, type Terminal } from './terminal.ts';

/** Loaded when called: help and version cost nothing. */
const COMMANDS: Readonly<Record<string, { readonly summary: string; load(): Promise<Command> }>> = {
  demo: {
    summary: 'Run a sample agent here in the terminal, offline, with no key',
    load: async () => (await import('./demo.ts')).demo,
  },
  serve: {
    summary: 'Serve an agent over A2A with the page that shows both lanes',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
};

const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130 } as const;

async function main(argv: readonly string[], terminal: Terminal): Promise<number> {
  const [name = 'help', ...rest] = argv;
  if (name === '--version' || name === '-V') {
    terminal.line(version());
    return EXIT.ok;
  }
  if (name === 'help' || name === '--help' || name === '-h') {
    terminal.line(overview());
    return EXIT.ok;
  }
  const entry = COMMANDS[name];
  if (!entry) {
    terminal.note(`There is no command ${name}. Commands: ${Object.keys(COMMANDS).join(', ')}.`);
    return EXIT.usage;
  }
  const command = await entry.load();
  const { args, flags } = readArgs(name, command, rest);
  if (flags['help']) {
    terminal.line(helpOf(name, command));
    return EXIT.ok;
  }
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted); // the second time: at once
    stop.abort(new DuolaneError('canceled', 'stopped by the person at the keyboard'));
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    return await command.run({ args, flags, terminal, signal: stop.signal });
  } catch (error) {
    if (stop.signal.aborted) return EXIT.interrupted;
    throw error;
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

function overview(): string {
  const rows = Object.entries(COMMANDS).map(
    ([name, { summary }]) => `  ${name.padEnd(10)}${summary}`,
  );
  return [
    'duolane: run any agent behind a stream that cannot lie.',
    '',
    'Usage: duolane <command> [options]',
    '',
    ...rows,
    '',
    'duolane <command> --help says more. Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 stopped.',
  ].join('\n');
}

const version = (): string =>
  (
    JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string;
    }
  ).version;

const terminal = openTerminal();
main(process.argv.slice(2), terminal).then(
  (code) => {
    process.exitCode = code;
  },
  (error: unknown) => {
    const { code, message } = DuolaneError.from(error);
    terminal.note(`duolane: ${message}`);
    if (process.env['DUOLANE_DEBUG'])
      terminal.note(String(error instanceof Error ? error.stack : error));
    process.exitCode = code === 'invalid' || code === 'not_found' ? EXIT.usage : EXIT.failed;
  },
);
