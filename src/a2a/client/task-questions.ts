import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { asObject, type JsonObject } from '../../json.ts';
import { INTERRUPTED, type A2APart, type A2AStatus } from '../protocol/model.ts';
import { textOf } from './task-fold.ts';

/**
 * The open questions of a task: none if it does not wait for a person. Servers of Duolane send each
 * as data; any other agent asks one question, in the text of its message.
 */
export function questionsOf({ state, message }: A2AStatus): readonly InputRequest[] {
  if (!INTERRUPTED.has(state)) return [];
  const parts = message?.parts ?? [];
  const sent = structuredQuestions(parts);
  if (sent.length > 0) return sent;
  const kind = state === 'TASK_STATE_AUTH_REQUIRED' ? 'auth' : 'question';
  const text = textOf(parts) || 'The agent needs an answer to go on.';
  return [{ id: message?.messageId ?? text, kind, message: text }];
}

/**
 * The parts of a message that answers the questions of a status: one data part for an agent that
 * sent them as data, else text. Throws `invalid` for an answer to a question that is not open.
 */
export function encodeAnswers(status: A2AStatus, answers: readonly Answer[]): readonly A2APart[] {
  const open = questionsOf(status).map(({ id }) => id);
  const other = answers.find(({ id }) => !open.includes(id));
  if (other || answers.length === 0)
    throw new DuolaneError(
      'invalid',
      open.length === 0
        ? `cannot answer: the task has no open question (${status.state}); read its current status first`
        : `invalid answer ${JSON.stringify(other?.id ?? '')}: expected the id of an open question, ${open.map((id) => JSON.stringify(id)).join(' or ')}`,
    );
  const byId = structuredQuestions(status.message?.parts ?? []).length > 0;
  return byId ? [{ data: { answers } }] : answers.map(toPart);
}

function toPart({ action, content }: Answer): A2APart {
  if (action !== 'accept') return { text: action === 'decline' ? 'No.' : 'Cancel.' };
  if (content === undefined) return { text: 'Yes.' };
  return typeof content === 'string' ? { text: content } : { data: content };
}

const structuredQuestions = (parts: readonly A2APart[]): readonly InputRequest[] =>
  parts.flatMap(({ data }) => {
    const request = asObject(asObject(data)['request']);
    return isQuestion(request) ? [request] : [];
  });

const isQuestion = (value: JsonObject): value is JsonObject & InputRequest =>
  typeof value['id'] === 'string' &&
  (value['kind'] === 'approval' || value['kind'] === 'question' || value['kind'] === 'auth');
