import type { Logger } from '../event/types.ts';

/**
 * The logger of a server without the option `logger`. Errors and warnings go to stderr, one line
 * each, with the stack of an error below: the server withholds these texts from its callers, so
 * they must be readable somewhere.
 */
export function stderrLogger(): Logger {
  const write =
    (level: string): Logger['error'] =>
    (message, data = {}) => {
      const { stack, ...facts } = data;
      const more = Object.keys(facts).length > 0 ? ` ${JSON.stringify(facts)}` : '';
      const lines = typeof stack === 'string' ? `${stack}\n` : '';
      process.stderr.write(printable(`duolane ${level}: ${message}${more}\n${lines}`));
    };
  const ignore = (): void => {};
  return { error: write('error'), warn: write('warning'), info: ignore, debug: ignore };
}

/** Replaces control characters, which could control the terminal. Line breaks and tabs stay. */
const printable = (text: string): string =>
  // oxlint-disable-next-line no-control-regex
  text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '\ufffd');
