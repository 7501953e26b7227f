import type { AgentContext, Part, Snapshot, Turn } from '../event/types.ts';

/** One side of a conversation, in words. */
export interface Message {
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** Older tasks of the context are left out: a context may live for years. */
const MAX_TASKS = 50;

/**
 * What was said before this turn, oldest first: the earlier tasks of its context, then the earlier
 * turns of its task. For frameworks that keep no memory of their own.
 */
export async function conversation(turn: Turn, ctx: AgentContext): Promise<readonly Message[]> {
  const { task } = ctx;
  const isAgain = task.current?.messageId === turn.messageId;
  const earlier = task.turns.filter(({ messageId }) => messageId !== turn.messageId);
  const newestFirst: Message[][] = [exchange(earlier, isAgain ? '' : task.text)];
  for await (const snapshot of ctx.history()) {
    if (snapshot.task === turn.task) continue;
    newestFirst.push(exchange(snapshot.turns, snapshot.text));
    if (newestFirst.length > MAX_TASKS) break;
  }
  return newestFirst.toReversed().flat();
}

/** The snapshot has the answer of the last run only, so all that was asked stands before it. */
function exchange(turns: Snapshot['turns'], answer: string): Message[] {
  const asked = turns.map(({ parts }) => wordsOf(parts)).filter((words) => words !== '');
  if (asked.length === 0 || answer === '') return [];
  return [
    { role: 'user', text: asked.join('\n\n') },
    { role: 'assistant', text: answer },
  ];
}

/** What a person sent, in words. Bytes have none. */
export const wordsOf = (parts: readonly Part[]): string =>
  parts
    .flatMap((part) => {
      if ('text' in part) return [part.text];
      if ('data' in part) return [JSON.stringify(part.data)];
      return 'url' in part ? [part.url] : [];
    })
    .join('\n');
