import { createInterface } from 'node:readline/promises';
import { parseDecision } from 'duolane/event';
import type { ToolContext } from 'duolane/mcp';

type Ask = ToolContext['ask'];
type Answer = Awaited<ReturnType<Ask>>;

/**
 * Asks a reviewer at the terminal, one question at a time. Without a terminal no one can review, so
 * every ticket is declined, and a line says so.
 */
export function terminalReviewer(): Ask {
  let turn: Promise<unknown> = Promise.resolve();
  return (request, options) => {
    const decided = turn.then(() => review(request, options?.signal));
    turn = decided.catch(() => {}); // the caller gets the error
    return decided;
  };
}

const WHICH = '  [a]pprove, [e]dit or [r]eject? ';

/** Parses the decision; undefined for any text that is not one of the three. */
export function decisionIn(said: string): 'approve' | 'edit' | 'reject' | undefined {
  const word = said.trim().toLowerCase();
  if (word === 'e' || word === 'edit') return 'edit';
  if (word === 'r') return 'reject';
  const action = word === 'a' ? 'accept' : parseDecision(said);
  return action && (action === 'accept' ? 'approve' : 'reject');
}

async function review(
  { id, message = 'Create this ticket?', data }: Parameters<Ask>[0],
  signal?: AbortSignal,
): Promise<Answer> {
  const fields = Object.entries(data ?? {}).map(([name, value]) => `    ${name}: ${String(value)}`);
  console.log(['', `  ${message}`, ...fields].join('\n'));
  if (!process.stdin.isTTY) {
    console.log('  (no terminal: declined)');
    return { id, action: 'decline', content: { reason: 'a review needs a terminal' } };
  }
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const question = (text: string): Promise<string> =>
    signal ? lines.question(text, { signal }) : lines.question(text);
  try {
    let said = decisionIn(await question(WHICH));
    while (!said) said = decisionIn(await question(`  Enter a, e or r.\n${WHICH}`));
    if (said === 'reject')
      return { id, action: 'decline', content: { reason: await question('  Why? ') } };
    if (said === 'approve') return { id, action: 'accept' };
    const content: Record<string, string> = {};
    for (const name of Object.keys(data ?? {})) {
      const text = await question(`  ${name} (empty: unchanged): `);
      if (text.trim() !== '') content[name] = text;
    }
    return { id, action: 'accept', content };
  } finally {
    lines.close();
  }
}
