import { RULES } from '../../../trace/index.ts';
import { EXIT } from '../../command.ts';
import { stripControlCharacters } from '../../../event/text/control-characters.ts';
import type { Style, TextOutput } from '../../terminal/terminal.ts';
import { type Fault, FaultReport, type Side } from './fault-types.ts';

/** The faults by their name on the command line, loaded on demand. */
const LOADERS: Readonly<Record<string, () => Promise<Fault>>> = {
  'string-prompt': async () => (await import('./faults/string-prompt.ts')).stringPrompt,
  'late-write': async () => (await import('./faults/late-write.ts')).lateWrite,
  'kill-cli': async () => (await import('./faults/kill-cli.ts')).killCli,
  'no-final': async () => (await import('./faults/no-final.ts')).noFinal,
  'lost-event': async () => (await import('./faults/lost-event.ts')).lostEvent,
  'slow-consumer': async () => (await import('./faults/slow-consumer.ts')).slowConsumer,
  'cancel-other-replica': async () =>
    (await import('./faults/cancel-other-replica.ts')).cancelOtherReplica,
};

export const FAULTS: readonly string[] = Object.keys(LOADERS);

/** The width from which two columns are readable. */
const SIDE_BY_SIDE = 110;

/**
 * Runs the naive program and ours, one after the other, and prints them side by side. Returns 0 if
 * the naive one broke the rule and ours kept it.
 */
export async function runFault(
  name: string,
  out: TextOutput,
  { json, signal }: { readonly json: boolean; readonly signal: AbortSignal },
): Promise<number> {
  const fault = await (LOADERS[name] as () => Promise<Fault>)();
  if (!json) out.line(`${out.style('bold', fault.title)}\n`);
  const naive = await fault.runNaive(new FaultReport(), signal);
  signal.throwIfAborted();
  const ours = await fault.runOurs(new FaultReport(), signal);
  signal.throwIfAborted();
  if (json)
    out.line(JSON.stringify({ fault: name, title: fault.title, rule: fault.rule, naive, ours }));
  else {
    print(out, fault, naive, ours);
    const fix = fault.doctor && RULES[fault.doctor].fix;
    out.line(`\n${out.style('bold', 'Rule')}     ${fault.rule}`);
    out.line(`${out.style('bold', 'Duolane')}  ${fault.ours}`);
    if (fault.doctor && fix) out.line(`${out.style('bold', 'Doctor')}   ${fault.doctor}: ${fix}`);
  }
  return !naive.kept && ours.kept ? EXIT.ok : EXIT.failed;
}

function print(out: TextOutput, { naive: summary }: Fault, naive: Side, ours: Side): void {
  const wide = out.width >= SIDE_BY_SIDE;
  const width = wide ? Math.floor((out.width - 3) / 2) : out.width;
  const first = column(out, `The naive way: ${summary}`, naive, width);
  const second = column(out, 'With Duolane', ours, width);
  if (!wide) return [...first, blank, ...second].forEach(({ text }) => out.line(text));
  for (let row = 0; row < Math.max(first.length, second.length); row++) {
    const { text, length } = first[row] ?? blank;
    const gap = ' '.repeat(Math.max(0, width - length));
    out.line(`${text}${gap} ${out.style('dim', '│')} ${second[row]?.text ?? ''}`.trimEnd());
  }
}

interface Cell {
  readonly text: string;
  /** The number of visible characters, without colour codes. */
  readonly length: number;
}

const blank: Cell = { text: '', length: 0 };

function column(
  out: TextOutput,
  head: string,
  { lines, kept, verdict }: Side,
  width: number,
): Cell[] {
  const colour = kept ? 'green' : 'red';
  const cells = (text: string, style?: Style): Cell[] =>
    wrapText(stripControlCharacters(text), width).map((line) => ({
      text: style === undefined ? line : out.style(style, line),
      length: line.length,
    }));
  return [
    ...cells(head, 'bold'),
    ...lines.flatMap((line) => cells(line)),
    ...cells(`${kept ? '✓' : '✗'} ${verdict}`, colour),
  ];
}

function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  let rest = text;
  while (rest.length > width) {
    const at = rest.lastIndexOf(' ', width);
    const cut = at > width / 2 ? at : width;
    lines.push(rest.slice(0, cut));
    rest = `          ${rest.slice(cut).trimStart()}`;
  }
  return [...lines, rest];
}
