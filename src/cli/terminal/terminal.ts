import { styleText } from 'node:util';
import { DuolaneError } from '../../errors.ts';

export type Style = Parameters<typeof styleText>[0];

/** One output stream. It has colours only on a terminal. */
export interface TextOutput {
  line(text?: string): void;
  /** Writes text without a line break, for streamed text. */
  write(text: string): void;
  readonly style: (style: Style, text: string) => string;
  /** Whether it is a terminal, so that progress may be drawn over itself. */
  readonly live: boolean;
  /** The number of columns; 80 if it is unknown. */
  readonly width: number;
}

/** The standard streams of the command. */
export interface Terminal {
  readonly out: TextOutput;
  readonly err: TextOutput;
  /** Whether the user can be asked: stdin and stdout are both a terminal. */
  readonly interactive: boolean;
  /** Resolves when the written text has left the process, or stdout is closed. */
  flush(): Promise<void>;
}

/**
 * Opens the streams of this process. When the reader of stdout closes it (`| head`), `onClosed` is
 * called once, and later text is dropped.
 */
export function openTerminal(onClosed: (reason: DuolaneError) => void): Terminal {
  const { stdin, stdout, stderr } = process;
  let gone = false;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (gone) return;
    gone = true;
    onClosed(new DuolaneError('closed', `stdout is closed (${error.code})`, { cause: error }));
  });
  stderr.on('error', () => {}); // no other stream is left to report it on
  return {
    out: channel(stdout, () => gone),
    err: channel(stderr, () => false),
    interactive: stdin.isTTY === true && stdout.isTTY === true,
    async flush() {
      if (!gone) await new Promise<void>((resolve) => stdout.write('', () => resolve()));
      await new Promise<void>((resolve) => stderr.write('', () => resolve()));
    },
  };
}

function channel(stream: NodeJS.WriteStream, isGone: () => boolean): TextOutput {
  const live = stream.isTTY === true && process.env['TERM'] !== 'dumb';
  const coloured = live && !process.env['NO_COLOR'];
  const write = (text: string): void => {
    if (!isGone() && !stream.destroyed) stream.write(text);
  };
  return {
    line: (text = '') => write(`${text}\n`),
    write,
    style: (style, text) => (coloured ? styleText(style, text) : text),
    live,
    get width() {
      return stream.columns || 80;
    },
  };
}
