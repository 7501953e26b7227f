import type { AgentContext, Part, SaidMessage, Snapshot, Turn } from '../../event/types.ts';
import { partText } from './framework-agent.ts';

/** An earlier message of a conversation, as text. */
export interface EarlierMessage {
  readonly role: 'user' | 'assistant';
  readonly text: string;
}

/** How many earlier tasks are read: a context may live for years. */
const MAX_TASKS = 50;

/**
 * The messages before this turn, oldest first: the earlier tasks of its context, then the earlier
 * turns of its task. For frameworks without their own memory. A run that starts the turn again, as
 * after a question to a person, gets the same messages.
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

/** The messages of a task; with `until`, only those before that turn. */
function messagesOf(task: Snapshot, until?: Turn): readonly EarlierMessage[] {
  const messages: EarlierMessage[] = [];
  // Two messages of one role in a row become one: model APIs expect alternating roles.
  const add = (role: EarlierMessage['role'], text: string): void => {
    if (text === '') return;
    const last = messages.at(-1);
    if (last?.role === role)
      messages[messages.length - 1] = { role, text: `${last.text}\n\n${text}` };
    else messages.push({ role, text });
  };
  const questions = new Map(messagesOfKind('question', task).map(({ id, text }) => [id, text]));
  // The response to a turn comes after the questions that its run asked.
  let response = '';
  for (const { messageId, parts, answers = [] } of task.turns) {
    if (messageId === until?.messageId) break;
    for (const { id, content } of answers) {
      // An approval belongs to its call; an answer that is text is part of the conversation.
      if (typeof content !== 'string') continue;
      add('assistant', questions.get(id) ?? '');
      add('user', content);
    }
    if (parts.length === 0) continue;
    add('assistant', response);
    add('user', partsText(parts));
    response = responseTo(messageId, task);
  }
  add('assistant', response);
  // Without a message of the agent no conversation has begun.
  return messages.some(({ role }) => role === 'assistant') ? messages : [];
}

/** The text of a turn's run. That of the current run is in the snapshot itself. */
const responseTo = (messageId: string, task: Snapshot): string =>
  task.current?.messageId === messageId
    ? task.text
    : (messagesOfKind('response', task).find(({ id }) => id === messageId)?.text ?? '');

const messagesOfKind = (
  kind: SaidMessage['kind'],
  { said = [] }: Snapshot,
): readonly SaidMessage[] => said.filter((each) => each.kind === kind);

/** The parts of a turn as text; bytes are omitted. */
export const partsText = (parts: readonly Part[]): string =>
  parts.flatMap((part) => ('bytes' in part ? [] : [partText(part)])).join('\n');
