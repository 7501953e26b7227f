import { parseArgs, type ParseArgsConfig } from 'node:util';
import { DuolaneError } from '../errors.ts';
import type { Terminal } from './terminal.ts';

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  readonly usage: string;
  readonly options?: NonNullable<ParseArgsConfig['options']>;
  /** What each option means, in the order of the help. */
  readonly help?: Readonly<Record<string, string>>;
  /** Resolves with the exit code. */
  run(call: CommandCall): Promise<number>;
}

export interface CommandCall {
  readonly args: readonly string[];
  readonly flags: Readonly<Record<string, string | boolean | undefined>>;
  readonly terminal: Terminal;
  /** Aborts on Ctrl-C and on SIGTERM. */
  readonly signal: AbortSignal;
}

/** The words after the command's name; an unknown flag is `invalid`, with what there is. */
export function readArgs(
  name: string,
  command: Command,
  argv: readonly string[],
): Pick<CommandCall, 'args' | 'flags'> {
  try {
    const { values, positionals } = parseArgs({
      args: [...argv],
      options: { ...command.options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    return { args: positionals, flags: values as CommandCall['flags'] };
  } catch (cause) {
    const text = cause instanceof Error ? cause.message.split('. ')[0] : String(cause);
    throw new DuolaneError('invalid', `${text}. See: duolane ${name} --help`, { cause });
  }
}

export function helpOf(name: string, command: Command): string {
  const rows = Object.entries(command.help ?? {}).map(
    ([flag, text]) => `  ${flag.padEnd(24)}${text}`,
  );
  return [
    command.summary,
    '',
    `Usage: duolane ${name} ${command.usage}`.trimEnd(),
    ...(rows.length > 0 ? ['', 'Options:', ...rows] : []),
  ].join('\n');
}
