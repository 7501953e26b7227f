import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { type Answer, elicitationKind, type InputRequest } from '../../ask.ts';
import { parseDecision } from '../../event/text/parse-decision.ts';
import type { JsonObject } from '../../json.ts';
import { askFields } from './ask-fields.ts';
import { stripControlCharacters } from '../../event/text/control-characters.ts';
import { printForeign } from './entry-printer.ts';
import type { Terminal } from './terminal.ts';

/**
 * Reads one line from the terminal; undefined at the end of the input (Ctrl-D). Ctrl-C is passed on
 * as SIGINT. `history` is for the arrow keys, newest first.
 */
export async function readLine(
  prompt: string,
  signal: AbortSignal,
  history: readonly string[] = [],
): Promise<string | undefined> {
  const { stdin: input, stdout: output } = process;
  const lines = createInterface({ input, output, history: [...history] });
  try {
    lines.on('SIGINT', () => process.emit('SIGINT', 'SIGINT'));
    const ended = new Promise<undefined>((resolve) =>
      lines.once('close', () => resolve(undefined)),
    );
    return await Promise.race([lines.question(prompt, { signal }), ended]);
  } finally {
    lines.close();
  }
}

/** Resolves when the user presses Enter, the input ends, or the signal aborts. */
export async function waitForEnter(signal: AbortSignal): Promise<void> {
  const lines = createInterface({ input: process.stdin, terminal: false });
  try {
    await Promise.race([once(lines, 'line', { signal }), once(lines, 'close', { signal })]);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    lines.close();
  }
}

/** Asks the user. Without a terminal the answer is `otherwise`, and a line on stderr says so. */
export async function askUser(
  request: InputRequest,
  terminal: Terminal,
  { signal, otherwise }: { readonly signal: AbortSignal; readonly otherwise: Answer['action'] },
): Promise<Answer> {
  const { id, kind } = request;
  // Without control characters: an agent must not hide what the user is about to approve.
  const question = stripControlCharacters(
    request.message ?? (kind === 'approval' ? 'Approve?' : 'Your answer?'),
  );
  if (request.data !== undefined) printForeign(terminal.err, JSON.stringify(request.data), 'dim');
  if (!terminal.interactive) {
    const decision = otherwise === 'accept' ? 'approved' : 'declined';
    terminal.err.line(`${question} (no terminal: ${decision})`);
    return { id, action: otherwise };
  }
  if (kind !== 'question') return { id, action: await askDecision(question, signal) };
  if (hasFields(request.schema)) {
    terminal.err.line(question);
    const content = await askFields(request.schema, (prompt) => readLine(prompt, signal));
    return content ? { id, action: 'accept', content } : { id, action: 'cancel' };
  }
  const line = await readLine(`${question} > `, signal);
  if (line === undefined) return { id, action: 'cancel' };
  return { id, action: 'accept', content: line.trim() };
}

const hasFields = (schema: JsonObject | undefined): schema is JsonObject =>
  elicitationKind('form', schema) === 'question';

/** Only a clear yes accepts; an empty line declines; any other text asks again. */
async function askDecision(question: string, signal: AbortSignal): Promise<Answer['action']> {
  for (let prompt = `${question} [y/N] `; ; prompt = 'Please answer yes or no. [y/N] ') {
    const line = await readLine(prompt, signal);
    if (line === undefined) return 'cancel';
    if (line.trim() === '') return 'decline';
    const action = parseDecision(line);
    if (action) return action;
  }
}
