import { RULES } from '../../../trace/index.ts';
import { EXIT } from '../../command.ts';
import { stripControlCharacters } from '../../terminal/entry-printer.ts';
import type { TextOutput } from '../../terminal/terminal.ts';
import type { Fault, Side } from './fault-types.ts';

/** By the name on the command line; loaded when asked for. */
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

/** Below this, two columns are unreadable. */
const SIDE_BY_SIDE = 110;

/**
 * Runs the naive way and ours, one after the other, and lays them side by side. Code 0 when the
 * naive one broke and ours held: then the demo has shown what it promises.
 */
export async function runFault(
  name: string,
  out: TextOutput,
  { json, signal }: { readonly json: boolean; readonly signal: AbortSignal },
): Promise<number> {
  const fault = await (LOADERS[name] as () => Promise<Fault>)();
  if (!json) out.line(`${out.style('bold', fault.title)}\n`);
  const naive = await fault.runNaive(signal);
  signal.throwIfAborted();
  const ours = await fault.runOurs(signal);
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
  return !naive.held && ours.held ? EXIT.ok : EXIT.failed;
}

function print(out: TextOutput, { naive: words }: Fault, naive: Side, ours: Side): void {
  const wide = out.width >= SIDE_BY_SIDE;
  const width = wide ? Math.floor((out.width - 3) / 2) : out.width;
  const left = column(out, `The naive way: ${words}`, naive, width);
  const right = column(out, 'With Duolane', ours, width);
  if (!wide) return [...left, blank, ...right].forEach(({ text }) => out.line(text));
  for (let row = 0; row < Math.max(left.length, right.length); row++) {
    const { text, length } = left[row] ?? blank;
    const gap = ' '.repeat(Math.max(0, width - length));
    out.line(`${text}${gap} ${out.style('dim', '│')} ${right[row]?.text ?? ''}`.trimEnd());
  }
}

interface Cell {
  readonly text: string;
  /** Without what only colours it. */
  readonly length: number;
}

const blank: Cell = { text: '', length: 0 };

function column(
  out: TextOutput,
  head: string,
  { lines, held, verdict }: Side,
  width: number,
): Cell[] {
  const colour = held ? 'green' : 'red';
  const cells = (text: string, style?: Parameters<TextOutput['style']>[0]): Cell[] =>
    wrapText(stripControlCharacters(text), width).map((line) => ({
      text: style === undefined ? line : out.style(style, line),
      length: line.length,
    }));
  return [
    ...cells(head, 'bold'),
    ...lines.flatMap((line) => cells(line)),
    ...cells(`${held ? '✓' : '✗'} ${verdict}`, colour),
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
