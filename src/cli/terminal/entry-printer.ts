import { stripControlCharacters } from '../../event/text/control-characters.ts';
import type { Entry } from '../../event/types.ts';
import type { Style, TextOutput } from './terminal.ts';

/** An event to print: an entry of a log, or the same form of an event of another server. */
export type PrintableEvent = Entry extends infer Each
  ? Each extends Entry
    ? Omit<Each, 'seq'>
    : never
  : never;

/** Prints a line of foreign text, without the characters that control a terminal. */
export function printForeign(out: TextOutput, text: string, style?: Style): void {
  const clean = stripControlCharacters(text);
  out.line(style === undefined ? clean : out.style(style, clean));
}

/** Prints a run for a person: calls as they happen, text as it is streamed, artifacts as lists. */
export class Printer {
  readonly #out: TextOutput;
  readonly #begun = new Map<string, number>();
  #midLine = false;

  constructor(out: TextOutput) {
    this.#out = out;
  }

  event(entry: PrintableEvent): void {
    const { style } = this.#out;
    switch (entry.type) {
      case 'text.delta':
        if (entry.path?.length) return;
        this.#out.write(stripControlCharacters(entry.delta));
        this.#midLine = !entry.delta.endsWith('\n');
        return;
      case 'status':
        return this.#line(style('dim', stripControlCharacters(entry.message)));
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
        return this.#line(
          `${style('red', '✗')} ${shortName(entry.name)}: ${stripControlCharacters(entry.error.message)}`,
        );
      case 'retry':
        this.#line(style('yellow', `the model call failed (${entry.error.code}); retrying`));
        return entry.discard ? this.#void() : undefined;
      case 'step.stored':
        if (entry.status !== 'waiting' && entry.status !== 'retrying') return;
        return this.#line(style('dim', stripControlCharacters(`${entry.id}: ${entry.status}`)));
      case 'run.started':
        return entry.discard ? this.#void() : undefined;
      case 'artifact':
        this.#line(`\n${style('bold', stripControlCharacters(entry.name ?? entry.artifactId))}`);
        for (const part of entry.parts) {
          if ('text' in part) this.#line(stripControlCharacters(part.text));
          else if ('data' in part)
            this.#line(stripControlCharacters(indentedLines(part.data).join('\n')));
          else if ('url' in part) this.#line(stripControlCharacters(part.url));
        }
        return;
      case 'run.finished':
        if (entry.outcome === 'input-required') return; // suspended until it is answered
        if (entry.outcome === 'completed') return this.#line(style('green', 'completed'));
        return this.#line(
          style(
            'red',
            stripControlCharacters(
              `${entry.outcome}${entry.error ? `: ${entry.error.message}` : ''}`,
            ),
          ),
        );
      default:
        return;
    }
  }

  #line(text: string): void {
    if (this.#midLine) this.#out.line();
    this.#midLine = false;
    this.#out.line(text);
  }

  #void(): void {
    this.#line(this.#out.style('dim', '(the text above is discarded; the agent starts over)'));
  }

  #took({ callId, at }: { readonly callId: string; readonly at: number }): string {
    const from = this.#begun.get(callId);
    return from === undefined ? '' : `${at - from} ms`;
  }
}

const shortName = (name: string): string => stripControlCharacters(name.replace(/^mcp__.+?__/, ''));

const brief = (args: unknown): string => {
  const text = JSON.stringify(args) ?? '';
  return stripControlCharacters(text.length > 100 ? `${text.slice(0, 99)}…` : text);
};

/** A JSON value as indented lines. */
function indentedLines(value: unknown, depth = 0): string[] {
  const pad = '  '.repeat(depth);
  if (Array.isArray(value))
    return value.flatMap((item) => mark(indentedLines(item, depth + 1), `${pad}- `));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, item]) =>
      typeof item === 'object' && item !== null
        ? [`${pad}${key}:`, ...indentedLines(item, depth + 1)]
        : [`${pad}${key}: ${String(item)}`],
    );
  }
  return [`${pad}${String(value)}`];
}

const mark = ([first = '', ...rest]: readonly string[], bullet: string): string[] => [
  `${bullet}${first.trimStart()}`,
  ...rest,
];
