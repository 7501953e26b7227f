import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { type Answer, elicitationKind, type InputRequest } from '../../ask.ts';
import { parseDecision } from '../../event/text/parse-decision.ts';
import type { JsonObject } from '../../json.ts';
import { askFields } from './ask-fields.ts';
import { stripControlCharacters } from './entry-printer.ts';
import type { Terminal } from './terminal.ts';

/**
 * One line from the person at the terminal, undefined at its end (Ctrl-D). Ctrl-C there means what
 * it means everywhere. `history` is for the arrow keys, newest first.
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

/** Resolves when the person presses Enter, ends the input, or the signal says so. */
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

/** A person decides. Where there is none, `otherwise` is the answer, and that is said. */
export async function askUser(
  request: InputRequest,
  terminal: Terminal,
  { signal, otherwise }: { readonly signal: AbortSignal; readonly otherwise: Answer['action'] },
): Promise<Answer> {
  const { id, kind } = request;
  // Without what steers a terminal: an agent must not hide what the person is about to approve.
  const question = stripControlCharacters(
    request.message ?? (kind === 'approval' ? 'Approve?' : 'What is the answer?'),
  );
  if (request.data !== undefined) {
    terminal.err.line(
      terminal.err.style('dim', stripControlCharacters(JSON.stringify(request.data))),
    );
  }
  if (!terminal.interactive) {
    const word = otherwise === 'accept' ? 'approved' : 'declined';
    terminal.err.line(`${question} (no terminal to ask at: ${word})`);
    return { id, action: otherwise };
  }
  if (kind !== 'question') return { id, action: await decideInWords(question, signal) };
  if (hasFields(request.schema)) {
    terminal.err.line(question);
    const content = await askFields(request.schema, (prompt) => readLine(prompt, signal));
    return content ? { id, action: 'accept', content } : { id, action: 'cancel' };
  }
  const said = await readLine(`${question} > `, signal);
  if (said === undefined) return { id, action: 'cancel' };
  return { id, action: 'accept', content: said.trim() };
}

const hasFields = (schema: JsonObject | undefined): schema is JsonObject =>
  elicitationKind('form', schema) === 'question';

/** Only a plain yes accepts; an empty line declines; anything that is neither yes nor no asks again. */
async function decideInWords(question: string, signal: AbortSignal): Promise<Answer['action']> {
  for (let prompt = `${question} [y/N] `; ; prompt = 'Please answer yes or no. [y/N] ') {
    const said = await readLine(prompt, signal);
    if (said === undefined) return 'cancel';
    if (said.trim() === '') return 'decline';
    const action = parseDecision(said);
    if (action) return action;
  }
}
