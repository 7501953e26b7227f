import type { AgentContext, Part, SaidMessage, Snapshot, Turn } from '../../event/types.ts';

/** One side of a conversation, in words. */
export interface EarlierMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** Older tasks of the context are left out: a context may live for years. */
const MAX_TASKS = 50;

/**
 * What was said before this turn, oldest first: the earlier tasks of its context, then the earlier
 * turns of its task. For frameworks that keep no memory of their own. The same for a run that
 * starts the turn again, as after a wait for a person.
 */
export async function earlierMessages(
  turn: Turn,
  ctx: AgentContext,
): Promise<readonly EarlierMessage[]> {
  const newestFirst: (readonly EarlierMessage[])[] = [messagesOf(ctx.task, turn)];
  for await (const snapshot of ctx.history()) {
    if (snapshot.task === turn.task) continue;
    newestFirst.push(messagesOf(snapshot));
    if (newestFirst.length > MAX_TASKS) break;
  }
  return newestFirst.toReversed().flat();
}

/** Both sides of a task; with `until`, only what was said before that turn. */
function messagesOf(task: Snapshot, until?: Turn): readonly EarlierMessage[] {
  const messages: EarlierMessage[] = [];
  // Two in a row become one: models want the two sides to take turns.
  const say = (role: EarlierMessage['role'], text: string): void => {
    if (text === '') return;
    const last = messages.at(-1);
    if (last?.role === role)
      messages[messages.length - 1] = { role, text: `${last.text}\n\n${text}` };
    else messages.push({ role, text });
  };
  const questions = new Map(saidAs('question', task).map(({ id, text }) => [id, text]));
  // The answer of a turn stands behind the questions that its run asked.
  let response = '';
  for (const { messageId, parts, answers = [] } of task.turns) {
    if (messageId === until?.messageId) break;
    for (const { id, content } of answers) {
      // Approvals are decided on with their call; what a person told in words is part of the talk.
      if (typeof content !== 'string') continue;
      say('assistant', questions.get(id) ?? '');
      say('user', content);
    }
    if (parts.length === 0) continue;
    say('assistant', response);
    say('user', partsText(parts));
    response = responseTo(messageId, task);
  }
  say('assistant', response);
  // Without a word of the agent there is nothing to go on from.
  return messages.some(({ role }) => role === 'assistant') ? messages : [];
}

/** What the run of a turn has said; the last run's text is still in the snapshot's own. */
const responseTo = (messageId: string, task: Snapshot): string =>
  task.current?.messageId === messageId
    ? task.text
    : (saidAs('response', task).find(({ id }) => id === messageId)?.text ?? '');

const saidAs = (kind: SaidMessage['kind'], { said = [] }: Snapshot): readonly SaidMessage[] =>
  said.filter((each) => each.kind === kind);

/** What a person sent, in words. Bytes have none. */
export const partsText = (parts: readonly Part[]): string =>
  parts
    .flatMap((part) => {
      if ('text' in part) return [part.text];
      if ('data' in part) return [JSON.stringify(part.data)];
      return 'url' in part ? [part.url] : [];
    })
    .join('\n');
