import { once } from 'node:events';
import { createInterface } from 'node:readline/promises';
import type { Answer, InputRequest } from '../ask.ts';
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
export async function enter(signal: AbortSignal): Promise<void> {
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
export async function decide(
  request: InputRequest,
  terminal: Terminal,
  { signal, otherwise }: { readonly signal: AbortSignal; readonly otherwise: Answer['action'] },
): Promise<Answer> {
  const { id, kind } = request;
  const question = request.message ?? (kind === 'approval' ? 'Approve?' : 'What is the answer?');
  if (request.data !== undefined) {
    terminal.err.line(terminal.err.style('dim', JSON.stringify(request.data)));
  }
  if (!terminal.interactive) {
    const word = otherwise === 'accept' ? 'approved' : 'declined';
    terminal.err.line(`${question} (no terminal to ask at: ${word})`);
    return { id, action: otherwise };
  }
  const said = (
    await readLine(`${question} ${kind === 'approval' ? '[Y/n] ' : '> '}`, signal)
  )?.trim();
  if (said === undefined) return { id, action: 'cancel' };
  if (kind !== 'approval') return { id, action: 'accept', content: said };
  return { id, action: /^n/i.test(said) ? 'decline' : 'accept' };
}
