import type { Logger } from '../../event/types.ts';
import { stripControlCharacters } from './entry-printer.ts';
import type { TextOutput } from './terminal.ts';

/** The file and line of the first stack frame that has them: `at run (file:///a/b.ts:3:7)`. */
function placeOf(stack: string): string | undefined {
  for (const line of stack.split('\n')) {
    if (!/^ +at /.test(line)) continue;
    const location = line.slice(line.lastIndexOf('(') + 1);
    const path = location.slice(location.search(/\/|[A-Z]:\\/)).replace(/^\/\/(?=\/)/, '');
    const place = /^((?:\/|[A-Z]:\\)[^()]+?:\d+):\d+\)?$/.exec(path)?.[1];
    if (place !== undefined) return place;
  }
  return undefined;
}

const REPEAT_MS = 1000;

/**
 * Says on a channel what callers are not told: errors and warnings, one line each, an error with the
 * place in the code where it was thrown; a line that repeats at most once a second. DUOLANE_DEBUG=1
 * adds stacks, and what is less than a warning.
 */
export function channelLogger(channel: TextOutput): Logger {
  const debug = Boolean(process.env['DUOLANE_DEBUG']);
  let last = { line: '', at: 0 };
  const say: Logger['error'] = (message, data = {}) => {
    const { stack, task: _, ...more } = data;
    const text = typeof stack === 'string' ? stack : '';
    const place = debug ? undefined : placeOf(text);
    const facts = Object.keys(more).length > 0 && JSON.stringify(more);
    const line = stripControlCharacters(
      [message, facts, place && `(${place})`].filter(Boolean).join(' '),
    );
    if (line === last.line && Date.now() - last.at < REPEAT_MS) return;
    last = { line, at: Date.now() };
    channel.line(line);
    if (debug && text !== '') channel.line(stripControlCharacters(text));
  };
  const hush = (): void => {};
  return { error: say, warn: say, info: debug ? say : hush, debug: debug ? say : hush };
}
