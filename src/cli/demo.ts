import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline/promises';
import type { Answer, InputRequest } from '../ask.ts';
import { DuolaneError } from '../errors.ts';
import type { Entry, Part } from '../event/types.ts';
import { memoryLog } from '../task/memory.ts';
import { createRunner } from '../task/runner.ts';
import type { Command } from './command.ts';
import { exampleNames, loadAgent } from './modules.ts';
import type { Terminal } from './terminal.ts';

const DEFAULT = 'ai-doctor';

export const demo: Command = {
  summary: 'Run a sample agent here in the terminal, offline, with no key.',
  usage: '[sample] [options]',
  options: { json: { type: 'boolean' } },
  help: { '--json': 'print the entries of the task log, one JSON object per line' },
  async run({ args, flags, terminal, signal }) {
    const [wanted = DEFAULT] = args;
    const { name, module } = await loadAgent(wanted);
    const [sample] = (module.options?.form?.['examples'] as unknown[] | undefined) ?? [];
    if (sample === undefined) {
      throw new DuolaneError(
        'invalid',
        `${wanted} has no sample to run; samples: ${exampleNames().join(', ')}`,
      );
    }
    await using log = memoryLog();
    await using runner = createRunner({ log, agents: { [name]: module.default } });
    const place = { agent: name, task: randomUUID(), context: randomUUID() };
    const submit = (parts: readonly Part[], answers: readonly Answer[] = []): Promise<Entry> =>
      runner.submit({
        ...place,
        messageId: randomUUID(),
        parts,
        ...(answers.length > 0 && { answers }),
      });
    const text = typeof sample === 'string' ? sample : JSON.stringify(sample);
    await submit([{ text }]);
    const stop = (): void => void log.requestCancel(place.task).catch(() => {});
    signal.addEventListener('abort', stop, { once: true });
    const show = flags['json'] ? undefined : new Printer(terminal);
    let outcome = 'failed';
    for await (const entry of log.read(place.task, 0)) {
      if (show) show.entry(entry);
      else terminal.line(JSON.stringify(entry));
      if (entry.type === 'input.required')
        await submit([], [await decide(entry.request, terminal, signal)]);
      if (entry.type === 'run.finished') outcome = entry.outcome;
    }
    if (show && outcome === 'completed') {
      terminal.line(
        `\nThe same with both lanes to watch: ${terminal.style('bold', `duolane serve ${name}`)}`,
      );
    }
    if (signal.aborted) return 130;
    return outcome === 'completed' ? 0 : 1;
  },
};

/** A person decides; where there is none, the sample goes on as if one had approved, and says so. */
async function decide(
  { id, message }: InputRequest,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<Answer> {
  const question = message ?? 'Approve?';
  if (!terminal.interactive || process.stdin.isTTY !== true) {
    terminal.note(`${question} (no terminal: approved)`);
    return { id, action: 'accept' };
  }
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  try {
    const said = await lines.question(`${question} [Y/n] `, { signal });
    return { id, action: /^n/i.test(said.trim()) ? 'decline' : 'accept' };
  } finally {
    lines.close();
  }
}

/** The log as a person follows it: calls as they happen, text as it grows, the result laid out. */
class Printer {
  readonly #terminal: Terminal;
  readonly #begun = new Map<string, number>();
  #midLine = false;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
  }

  entry(entry: Entry): void {
    const { style } = this.#terminal;
    switch (entry.type) {
      case 'text.delta':
        if (entry.path?.length) return;
        this.#terminal.write(entry.delta);
        this.#midLine = !entry.delta.endsWith('\n');
        return;
      case 'status':
        return this.#line(style('dim', entry.message));
      case 'tool.called':
        this.#begun.set(entry.callId, entry.at);
        return this.#line(
          `${style('yellow', '→')} ${shortName(entry.name)} ${style('dim', brief(entry.args))}`,
        );
      case 'tool.completed':
        return this.#line(
          `${style('green', '✓')} ${shortName(entry.name)} ${style('dim', this.#took(entry))}`,
        );
      case 'tool.failed':
        return this.#line(`${style('red', '✗')} ${shortName(entry.name)}: ${entry.error.message}`);
      case 'retry':
        return this.#line(style('yellow', `the model did not answer (${entry.error.code}); again`));
      case 'artifact':
        this.#line(`\n${style('bold', entry.name ?? entry.artifactId)}`);
        for (const part of entry.parts) {
          if ('text' in part) this.#line(part.text);
          else if ('data' in part) this.#line(lay(part.data).join('\n'));
          else if ('url' in part) this.#line(part.url);
        }
        return;
      case 'run.finished':
        if (entry.outcome === 'completed') return this.#line(style('green', 'completed'));
        return this.#line(
          style('red', `${entry.outcome}${entry.error ? `: ${entry.error.message}` : ''}`),
        );
      default:
        return;
    }
  }

  #line(text: string): void {
    if (this.#midLine) this.#terminal.line();
    this.#midLine = false;
    this.#terminal.line(text);
  }

  #took({ callId, at }: { readonly callId: string; readonly at: number }): string {
    const from = this.#begun.get(callId);
    return from === undefined ? '' : `${at - from} ms`;
  }
}

const shortName = (name: string): string => name.replace(/^mcp__.+?__/, '');

const brief = (args: unknown): string => {
  const text = JSON.stringify(args) ?? '';
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
};

/** A record as indented lines, the way a person would write it down. */
function lay(value: unknown, depth = 0): string[] {
  const pad = '  '.repeat(depth);
  if (Array.isArray(value)) return value.flatMap((item) => mark(lay(item, depth + 1), `${pad}- `));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, item]) =>
      typeof item === 'object' && item !== null
        ? [`${pad}${key}:`, ...lay(item, depth + 1)]
        : [`${pad}${key}: ${String(item)}`],
    );
  }
  return [`${pad}${String(value)}`];
}

const mark = ([first = '', ...rest]: readonly string[], bullet: string): string[] => [
  `${bullet}${first.trimStart()}`,
  ...rest,
];
