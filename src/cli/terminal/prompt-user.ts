import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import { type Answer, elicitationKind, type InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
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

/** How many questions of one turn or call are answered without a terminal. */
const MAX_UNATTENDED = 20;

interface AskUserOptions {
  readonly signal: AbortSignal;
  /** The answer without a terminal. */
  readonly otherwise: Answer['action'];
}

/**
 * Returns a function that asks the user the questions of one turn or call. Without a terminal the
 * answer is `otherwise`, and a line on stderr says so; it throws after 20 such answers, because an
 * agent that repeats its question would go on forever.
 */
export function askUser(
  terminal: Terminal,
  options: AskUserOptions,
): (request: InputRequest) => Promise<Answer> {
  let unattended = 0;
  return async (request) => {
    if (!terminal.interactive && (unattended += 1) > MAX_UNATTENDED)
      throw new DuolaneError(
        'unsupported',
        `the agent asks more than ${MAX_UNATTENDED} questions without a terminal; run the command at a terminal to answer them`,
      );
    return askOne(request, terminal, options);
  };
}

async function askOne(
  request: InputRequest,
  terminal: Terminal,
  { signal, otherwise }: AskUserOptions,
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
