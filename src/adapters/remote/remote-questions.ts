import type { A2APart, A2AStatus } from '../../a2a/protocol/model.ts';
import type { Answer, InputRequest } from '../../ask.ts';
import { asObject, type JsonObject } from '../../json.ts';
import { nameId } from '../../task/name-id.ts';
import { textOf } from './remote-events.ts';

/** A question of a remote agent. */
export interface RemoteQuestion {
  readonly local: InputRequest;
  /** The id by which the remote agent finds the answer; undefined if it takes a message. */
  readonly remoteId?: string;
}

/**
 * The questions of a status. Servers of Duolane send each as data; any other agent asks in the text
 * of its message.
 */
export function questionsOf({ state, message }: A2AStatus): readonly RemoteQuestion[] {
  const kind = state === 'TASK_STATE_AUTH_REQUIRED' ? 'auth' : 'question';
  const parts = message?.parts ?? [];
  const sent = parts.flatMap(({ data }) => {
    const request = asObject(asObject(data)['request']);
    return isQuestion(request) ? [request] : [];
  });
  if (sent.length > 0) return sent.map((local) => ({ local, remoteId: local.id }));
  const text = textOf(parts) || 'The remote agent needs an answer to go on.';
  const id = message?.messageId ?? nameId(text);
  return [{ local: { id, kind, message: text } }];
}

const isQuestion = (value: JsonObject): value is JsonObject & InputRequest =>
  typeof value['id'] === 'string' &&
  (value['kind'] === 'approval' || value['kind'] === 'question' || value['kind'] === 'auth');

/** Whether a status still asks what an answer is for. */
export const sameQuestions = (
  some: readonly RemoteQuestion[],
  others: readonly RemoteQuestion[],
): boolean =>
  some.length === others.length && some.every(({ local }, at) => local.id === others[at]?.local.id);

/** The message with the answers, in the form that the agent takes. */
export function answerParts(
  questions: readonly RemoteQuestion[],
  answers: readonly Answer[],
): readonly A2APart[] {
  if (questions.every(({ remoteId }) => remoteId !== undefined)) return [{ data: { answers } }];
  return answers.map(({ action, content }) => {
    if (action !== 'accept') return { text: action === 'decline' ? 'No.' : 'Cancel.' };
    if (content === undefined) return { text: 'Yes.' };
    return typeof content === 'string' ? { text: content } : { data: content };
  });
}
