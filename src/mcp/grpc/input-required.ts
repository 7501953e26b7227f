import { create } from '@bufbuild/protobuf';
import type { Ask } from '../../ask.ts';
import { unsupported } from '../../errors.ts';
import type { Abortable } from '../../stream/types.ts';
import {
  askInRounds,
  CollectingAsk,
  type InputAttempt,
  tooManyRounds,
} from '../sources/ask-rounds.ts';
import {
  fromInputAnswer,
  fromInputRequired,
  toInputAnswer,
  toInputRequired,
} from './codec/call-codec.ts';
import {
  type InputAnswer,
  InputAnswerSchema,
  type InputRequired,
  InputRequiredSchema,
} from './gen/mcp/stream/v1/mcp_pb.ts';

/** The `ask` of a source for a unary request, with the answers that came with the request. */
export const collectingAsk = (answers: readonly InputAnswer[]): CollectingAsk =>
  new CollectingAsk(answers.map(fromInputAnswer));

/** Encodes the questions of an attempt that threw; rethrows any other error. */
export const inputRequiredAfter = (collecting: CollectingAsk, error: unknown): InputRequired =>
  create(InputRequiredSchema, toInputRequired(collecting.questionsAfter(error)));

/**
 * Sends a request in as many rounds as the server needs, each with all answers so far. Without
 * `ask`, a question of the server throws `unsupported`; `what` names the request in messages.
 */
export async function requestInRounds<T>(
  what: string,
  ask: Ask | undefined,
  options: Abortable,
  attempt: (answers: InputAnswer[]) => Promise<InputAttempt<T, InputRequired>>,
): Promise<T> {
  const answers: InputAnswer[] = [];
  const again = async (required: InputRequired): Promise<InputAttempt<T, InputRequired>> => {
    if (!ask) throw unsupported(`${what} needs an answer; set ask`);
    const { requests } = fromInputRequired(required);
    const given = await Promise.all(requests.map((request) => ask(request, options)));
    answers.push(...given.map((answer) => create(InputAnswerSchema, toInputAnswer(answer))));
    return attempt(answers);
  };
  return askInRounds(await attempt(answers), again, () => tooManyRounds(what));
}
