import { statSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { DuolaneError, errorMessage } from '../errors.ts';
import type { Terminal } from './terminal/terminal.ts';

/** One flag of a command. Help, completion and documentation are generated from it. */
export interface Option {
  readonly text: string;
  /** The name of its value in the help; without it the flag is a switch. */
  readonly value?: string;
  /** The allowed values, if they are a fixed list. */
  readonly choices?: readonly string[];
}

/** A command of `duolane`. */
export interface Command {
  /** The arguments in the usage line, after the name of the command. */
  readonly usage: string;
  /** The names of the arguments that must be given, such as `<agent>`. */
  readonly required?: readonly string[];
  /** What is expected there, for the error if one is missing. */
  readonly expected?: string;
  /** The highest number of arguments; any number if undefined. */
  readonly most?: number;
  readonly options?: Readonly<Record<string, Option>>;
  /** The values of its first argument for completion, if they can be listed. */
  readonly words?: () => readonly string[];
  /** Further paragraphs of the help. */
  readonly details?: readonly string[];
  /** Command lines to copy. */
  readonly examples?: readonly string[];
  /** Resolves with the exit code, or with the signal with which this process should end. */
  run(call: CommandCall): Promise<number | NodeJS.Signals>;
}

/** One call of a command. */
export interface CommandCall {
  readonly args: readonly string[];
  readonly flags: CommandFlags;
  readonly terminal: Terminal;
  /** Aborts when this process gets a signal to stop; `signalOf` returns which one. */
  readonly signal: AbortSignal;
  /** Sets a handler that Ctrl-C calls first. If it returns true, the process does not stop. */
  readonly onInterrupt: (handler: () => boolean) => void;
}

export type CommandFlags = Readonly<Record<string, string | boolean | undefined>>;

/** The exit codes of every command; `wrap` has those of the CLI it wraps. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130, terminated: 143 } as const;

/** The signal that stopped this process, if any. */
export const signalOf = ({ reason }: AbortSignal): NodeJS.Signals | undefined =>
  reason instanceof DuolaneError && reason.code === 'canceled'
    ? (reason.cause as NodeJS.Signals)
    : undefined;

/** Parses the arguments of a command. Throws `invalid` for an unknown flag or value. */
export function readArgs(
  name: string,
  command: Command,
  argv: readonly string[],
): Pick<CommandCall, 'args' | 'flags'> {
  const options = Object.entries(command.options ?? {});
  let parsed: ReturnType<typeof parseArgs>;
  try {
    parsed = parseArgs({
      args: [...argv],
      options: {
        ...Object.fromEntries(
          options.map(([flag, { value }]) => [
            flag,
            { type: value === undefined ? 'boolean' : 'string' } as const,
          ]),
        ),
        help: { type: 'boolean', short: 'h' },
      },
      allowPositionals: true,
    });
  } catch (cause) {
    const [text = ''] = errorMessage(cause).split('. ');
    const problem = text.charAt(0).toLowerCase() + text.slice(1).replaceAll("'", '"');
    throw new DuolaneError('invalid', `${problem}; see duolane ${name} --help`, { cause });
  }
  const { required = [], expected = '' } = command;
  if (parsed.positionals.length < required.length && !parsed.values['help']) {
    const what = required.length === 1 ? 'argument' : 'arguments';
    throw new DuolaneError(
      'invalid',
      `missing ${what} ${required.join(' ')}: expected ${expected}`,
    );
  }
  const extra = parsed.positionals.slice(command.most ?? Infinity);
  if (extra.length > 0) {
    const what = extra.length === 1 ? 'argument' : 'arguments';
    throw new DuolaneError(
      'invalid',
      `unexpected ${what} "${extra.join(' ')}"; see duolane ${name} --help`,
    );
  }
  for (const [flag, { choices }] of options) {
    const given = parsed.values[flag];
    if (choices && given !== undefined && !choices.includes(String(given))) {
      throw new DuolaneError(
        'invalid',
        `invalid --${flag} "${String(given)}": expected ${choices.join(', ')}`,
      );
    }
  }
  return { args: parsed.positionals, flags: parsed.values as CommandFlags };
}

/** The number of a flag, or the default. Throws `invalid` if it is out of range. */
export function numberFlag(
  flags: CommandFlags,
  name: string,
  {
    min,
    max,
    otherwise,
  }: { readonly min: number; readonly max: number; readonly otherwise: number },
): number {
  const given = flags[name];
  const value = given === undefined ? otherwise : Number(given);
  if (given !== '' && value >= min && value <= max) return value;
  throw new DuolaneError(
    'invalid',
    `invalid --${name} "${String(given)}": expected a number from ${min} to ${max}`,
  );
}

export const textFlag = (flags: CommandFlags, name: string): string | undefined =>
  typeof flags[name] === 'string' ? flags[name] : undefined;

/** Whether the path is a file or a pipe, not a folder. */
export const isReadable = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === false;

/** The help text of one command. */
export function helpOf(name: string, summary: string, command: Command): string {
  const rows = Object.entries(command.options ?? {}).map(
    ([flag, { value, text, choices }]): readonly [string, string] => [
      `--${flag}${value === undefined ? '' : ` <${value}>`}`,
      choices ? `${text}: ${choices.join(', ')}` : text,
    ],
  );
  const width = Math.max(...rows.map(([flag]) => flag.length)) + 2;
  const parts: readonly (readonly string[])[] = [
    [`${summary}.`],
    [`Usage: duolane ${name} ${command.usage}`.trimEnd()],
    ...(command.details ?? []).map((paragraph) => [paragraph]),
    ...(rows.length > 0
      ? [['Options:', ...rows.flatMap(([flag, text]) => wrapRow(`  ${flag.padEnd(width)}`, text))]]
      : []),
    ...(command.examples
      ? [['Examples:', ...command.examples.map((example) => `  ${example}`)]]
      : []),
  ];
  return parts.map((lines) => lines.join('\n')).join('\n\n');
}

const COLUMNS = 96;

function wrapRow(head: string, text: string): string[] {
  const lines = [head];
  for (const word of text.split(' ')) {
    const last = lines.at(-1) as string;
    if (last.length + word.length < COLUMNS || last.trim() === '') {
      lines[lines.length - 1] = last.endsWith(' ') ? `${last}${word}` : `${last} ${word}`;
    } else lines.push(`${' '.repeat(head.length)}${word}`);
  }
  return lines;
}
