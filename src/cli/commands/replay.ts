import { encodeEntry } from '../../event/entry-codec.ts';
import { sleep, untilAborted } from '../../stream/abort.ts';
import type { TraceItem } from '../../trace/index.ts';
import { openBrowser } from '../terminal/open-browser.ts';
import { EXIT, numberFlag, type Command } from '../command.ts';
import { framePrinter } from '../terminal/frame-printer.ts';
import { Printer, printForeign } from '../terminal/entry-printer.ts';
import type { TextOutput } from '../terminal/terminal.ts';
import { openTrace } from './open-trace.ts';

/** Longer pauses are shortened to this, such as a night between two turns. */
const LONGEST_PAUSE_MS = 10_000;

export const replayCommand: Command = {
  usage: '<trace file> [options]',
  required: ['<trace file>'],
  expected: 'a recorded trace',
  most: 1,
  options: {
    speed: { value: 'factor', text: 'from 1 to 50 times as fast as it happened (1)' },
    json: { text: 'print the records as JSON, one per line, at the same pace' },
    page: { text: 'show it on the page instead, until Ctrl-C' },
    port: { value: 'number', text: 'port of the page; a free one by default' },
    open: { text: 'like --page, and open the browser, if there is one' },
  },
  details: [
    'Reads the files that duolane doctor reads: frames are shown as both lanes, entries of a log as a\n' +
      `run. Pauses are limited to ${LONGEST_PAUSE_MS / 1000} s before the speed is applied.`,
  ],
  examples: ['duolane replay run.jsonl --speed 10', 'duolane replay run.jsonl --open'],
  async run({ args, flags, terminal, signal }) {
    const [file = ''] = args;
    const trace = openTrace(file, signal);
    const speed = numberFlag(flags, 'speed', { min: 1, max: 50, otherwise: 1 });
    if (flags['page'] || flags['open']) {
      const { replayOnPage } = await import('./replay-page.ts');
      const port = numberFlag(flags, 'port', { min: 0, max: 65_535, otherwise: 0 });
      await using shown = await replayOnPage(trace, { speed, port });
      if (flags['json']) terminal.out.line(JSON.stringify({ url: shown.url }));
      else terminal.out.line(`${terminal.out.style('bold', shown.url)}  Ctrl-C stops`);
      if (flags['open'] && !openBrowser(shown.url))
        terminal.err.line('cannot open a browser: none was found');
      await untilAborted(signal);
      return EXIT.ok;
    }
    const show = flags['json'] ? asJson(terminal.out) : asText(terminal.out);
    let last: number | undefined;
    for await (const item of trace) {
      const at = timeOf(item) ?? last;
      const pauseMs = Math.min((at ?? 0) - (last ?? at ?? 0), LONGEST_PAUSE_MS) / speed;
      if (pauseMs >= 1) await sleep(pauseMs, signal);
      signal.throwIfAborted();
      last = at;
      show(item);
    }
    return EXIT.ok;
  },
};

function timeOf(item: TraceItem): number | undefined {
  if (item.kind === 'frame') return item.frame.at;
  return item.kind === 'entry' ? item.entry.at : undefined;
}

function asText(out: TextOutput): (item: TraceItem) => void {
  const lanes = framePrinter(out);
  const run = new Printer(out);
  return (item) => {
    switch (item.kind) {
      case 'frame':
        return lanes(item.frame);
      case 'entry':
        try {
          return run.event(item.entry);
        } catch {
          // It lacks members that its type requires; the rest of the file can still be shown.
          return out.line(
            out.style('red', `line ${item.line}: the entry is damaged; see duolane doctor`),
          );
        }
      case 'event':
        return printForeign(out, item.event.data);
      case 'unreadable':
        return printForeign(out, `line ${item.line}: ${item.why}`, 'red');
    }
  };
}

const asJson =
  (out: TextOutput) =>
  (item: TraceItem): void => {
    if (item.kind === 'entry') out.line(encodeEntry(item.entry));
    else if (item.kind === 'frame') out.line(JSON.stringify(item.frame));
    else if (item.kind === 'event') out.line(item.event.data);
  };
