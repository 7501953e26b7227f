import type { Logger } from '../../event/types.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import type { TextOutput } from './terminal.ts';

/** The file and line of the first stack frame that has them: `at run (file:///a/b.ts:3:7)`. */
function locationOf(stack: string): string | undefined {
  for (const line of stack.split('\n')) {
    if (!/^ +at /.test(line)) continue;
    const location = line.slice(line.lastIndexOf('(') + 1);
    const path = location.slice(location.search(/\/|[A-Z]:\\/)).replace(/^\/\/(?=\/)/, '');
    const found = /^((?:\/|[A-Z]:\\)[^()]+?:\d+):\d+\)?$/.exec(path)?.[1];
    if (found !== undefined) return found;
  }
  return undefined;
}

const REPEAT_MS = 1000;

/**
 * Logs to an output what is withheld from callers: errors and warnings, one line each, an error
 * with the file and line that threw it. A line that repeats is printed at most once a second.
 * DUOLANE_DEBUG=1 adds stacks and the levels below warning.
 */
export function channelLogger(channel: TextOutput): Logger {
  const debug = Boolean(process.env['DUOLANE_DEBUG']);
  let last = { line: '', at: 0 };
  const print: Logger['error'] = (message, data = {}) => {
    const { stack, task: _, ...more } = data;
    const text = typeof stack === 'string' ? stack : '';
    const location = debug ? undefined : locationOf(text);
    const facts = Object.keys(more).length > 0 && JSON.stringify(more);
    const line = stripControlCharacters(
      [message, facts, location && `(${location})`].filter(Boolean).join(' '),
    );
    if (line === last.line && Date.now() - last.at < REPEAT_MS) return;
    last = { line, at: Date.now() };
    channel.line(line);
    if (debug && text !== '') channel.line(stripControlCharacters(text));
  };
  const ignore = (): void => {};
  return { error: print, warn: print, info: debug ? print : ignore, debug: debug ? print : ignore };
}
