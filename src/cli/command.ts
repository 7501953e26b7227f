import { statSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { DuolaneError } from '../errors.ts';
import type { Terminal } from './terminal/terminal.ts';

/** One flag of a command: help, completion and the documentation are made from it. */
export interface Option {
  readonly text: string;
  /** What its value is called in the help; without it the flag is a switch. */
  readonly value?: string;
  /** The values that there are. */
  readonly choices?: readonly string[];
}

export interface Command {
  /** What stands behind the command's name. */
  readonly usage: string;
  /** How many words it takes at most; any number without it. */
  readonly most?: number;
  readonly options?: Readonly<Record<string, Option>>;
  /** What its first word may be, where that can be listed. */
  readonly words?: () => readonly string[];
  /** Further paragraphs of the help. */
  readonly details?: readonly string[];
  /** Lines to copy. */
  readonly examples?: readonly string[];
  /** Resolves with the exit code, or with the signal by which this process should end. */
  run(call: CommandCall): Promise<number | NodeJS.Signals>;
}

export interface CommandCall {
  readonly args: readonly string[];
  readonly flags: CommandFlags;
  readonly terminal: Terminal;
  /** Aborts when this process is asked to stop; `signalOf` says by which signal. */
  readonly signal: AbortSignal;
  /** Asks first what Ctrl-C means at this moment; true: it was dealt with, and nothing stops. */
  readonly onInterrupt: (handler: () => boolean) => void;
}

export type CommandFlags = Readonly<Record<string, string | boolean | undefined>>;

/** The exit codes of every command; `wrap` has those of the CLI it wraps. */
export const EXIT = { ok: 0, failed: 1, usage: 2, interrupted: 130, terminated: 143 } as const;

/** The signal that asked this process to stop, if one did. */
export const signalOf = ({ reason }: AbortSignal): NodeJS.Signals | undefined =>
  reason instanceof DuolaneError && reason.code === 'canceled'
    ? (reason.cause as NodeJS.Signals)
    : undefined;

/** The words after the command's name; an unknown flag or value is `invalid`, with what there is. */
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
    const text = cause instanceof Error ? cause.message.split('. ')[0] : String(cause);
    throw new DuolaneError('invalid', `${text}. See: duolane ${name} --help`, { cause });
  }
  const extra = parsed.positionals.slice(command.most ?? Infinity);
  if (extra.length > 0) {
    const many = extra.length === 1 ? 'one word' : `${extra.length} words`;
    throw new DuolaneError(
      'invalid',
      `${many} too many: ${extra.join(' ')}. See: duolane ${name} --help`,
    );
  }
  for (const [flag, { choices }] of options) {
    const given = parsed.values[flag];
    if (choices && given !== undefined && !choices.includes(String(given))) {
      throw new DuolaneError(
        'invalid',
        `--${flag} takes one of ${choices.join(', ')}; got ${String(given)}`,
      );
    }
  }
  return { args: parsed.positionals, flags: parsed.values as CommandFlags };
}

/** A flag's number, or the default; `invalid` outside of the range. */
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
    `--${name} must be a number from ${min} to ${max}, got ${String(given)}`,
  );
}

export const textFlag = (flags: CommandFlags, name: string): string | undefined =>
  typeof flags[name] === 'string' ? flags[name] : undefined;

/** Whether there is something to read: a file or a pipe, no folder. */
export const isReadable = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === false;

/** The plain help of one command. */
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
