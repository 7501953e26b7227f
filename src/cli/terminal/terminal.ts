import { styleText } from 'node:util';
import { DuolaneError } from '../../errors.ts';

type Style = Parameters<typeof styleText>[0];

/** One stream of text to a person or a program: colours only for a person. */
export interface TextOutput {
  line(text?: string): void;
  /** Text as it is, for what grows. */
  write(text: string): void;
  readonly style: (style: Style, text: string) => string;
  /** A person looks on: progress may be drawn over itself. */
  readonly live: boolean;
  /** How many columns there are; 80 where nobody knows. */
  readonly width: number;
}

export interface Terminal {
  readonly out: TextOutput;
  readonly err: TextOutput;
  /** Somebody can be asked: stdin and stdout are both a terminal. */
  readonly interactive: boolean;
  /** Resolves when what was written has left the process, or nobody reads it any more. */
  flush(): Promise<void>;
}

/**
 * The process's own streams. When the reader of stdout leaves (`| head`), `onGone` is told once, and
 * what is written afterwards is dropped.
 */
export function openTerminal(onGone: (reason: DuolaneError) => void): Terminal {
  const { stdin, stdout, stderr } = process;
  let gone = false;
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (gone) return;
    gone = true;
    onGone(new DuolaneError('closed', `nobody reads stdout (${error.code})`, { cause: error }));
  });
  stderr.on('error', () => {}); // what cannot be said there cannot be said at all
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
