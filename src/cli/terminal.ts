import { styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** Where a command prints: plain text always, colours only for a person at a terminal. */
export interface Terminal {
  /** One line to stdout. */
  line(text?: string): void;
  /** Text to stdout as it is, for what grows. */
  write(text: string): void;
  /** One line to stderr. */
  note(text: string): void;
  readonly style: (style: Style, text: string) => string;
  readonly interactive: boolean;
}

/** The process's own streams. A reader that left (`| head`) ends the command quietly. */
export function openTerminal(): Terminal {
  const { stdout, stderr, env } = process;
  const colour = stdout.isTTY === true && env['NO_COLOR'] === undefined && env['TERM'] !== 'dumb';
  for (const stream of [stdout, stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0);
      throw error;
    });
  }
  return {
    line: (text = '') => void stdout.write(`${text}\n`),
    write: (text) => void stdout.write(text),
    note: (text) => void stderr.write(`${text}\n`),
    style: (style, text) => (colour ? styleText(style, text) : text),
    interactive: stdout.isTTY === true,
  };
}
