import { create } from '@bufbuild/protobuf';
import type { Ask } from '../../ask.ts';
import { unsupported } from '../../errors.ts';
import type { Abortable } from '../../stream/types.ts';
import { CollectingAsk, MAX_INPUT_ROUNDS, tooManyRounds } from '../sources/ask-rounds.ts';
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
 * The answers that a client has collected for one request, over several rounds. Not `askInRounds`:
 * a resource is a stream, which cannot be the promise of one attempt.
 */
export class RequestAnswers {
  readonly answers: InputAnswer[] = [];
  readonly #what: string;
  readonly #ask: Ask | undefined;
  #rounds = 0;

  constructor(what: string, ask: Ask | undefined) {
    this.#what = what;
    this.#ask = ask;
  }

  /**
   * Asks the questions, so that the request can be repeated. Throws `unsupported` without an `ask`.
   */
  async answer(required: InputRequired, options: Abortable): Promise<void> {
    const ask = this.#ask;
    if (!ask) throw unsupported(`${this.#what} needs an answer; set ask`);
    this.#rounds += 1;
    if (this.#rounds > MAX_INPUT_ROUNDS) throw tooManyRounds(this.#what);
    const { requests } = fromInputRequired(required);
    const answers = await Promise.all(requests.map((request) => ask(request, options)));
    this.answers.push(...answers.map((answer) => create(InputAnswerSchema, toInputAnswer(answer))));
  }
}
