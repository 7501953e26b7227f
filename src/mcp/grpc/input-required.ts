import { create } from '@bufbuild/protobuf';
import type { Answer, Ask, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import type { Abortable } from '../../stream/types.ts';
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

/** How often one request may ask before it responds. */
export const MAX_UNARY_ROUNDS = 8;

/**
 * The `ask` of a source for a unary request. It returns the answers that came with the request.
 * Other questions are collected, and `required` returns them after the source has thrown.
 */
export class CollectingAsk {
  readonly #answers: readonly Answer[];
  readonly #asked = new Map<string, InputRequest>();

  constructor(answers: readonly InputAnswer[]) {
    this.#answers = answers.map(fromInputAnswer);
  }

  readonly ask: Ask = async (request) => {
    const known = this.#answers.find(({ id }) => id === request.id);
    if (known) return known;
    this.#asked.set(request.id, request);
    throw new DuolaneError('suspended', `the request waits for an answer to ${request.id}`);
  };

  /** Returns the questions for the client if they are the reason of the error; else rethrows it. */
  required(error: unknown): InputRequired {
    const suspended = error instanceof DuolaneError && error.code === 'suspended';
    if (!suspended || this.#asked.size === 0) throw error;
    return create(InputRequiredSchema, toInputRequired([...this.#asked.values()]));
  }
}

/** The answers that a client has collected for one request, over several rounds. */
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
    if (!ask)
      throw new DuolaneError('unsupported', `${this.#what} needs an answer: give it \`ask\``);
    this.#rounds += 1;
    if (this.#rounds > MAX_UNARY_ROUNDS)
      throw new DuolaneError(
        'malformed',
        `${this.#what} asked ${MAX_UNARY_ROUNDS} times, and again`,
      );
    const { requests } = fromInputRequired(required);
    const answers = await Promise.all(requests.map((request) => ask(request, options)));
    this.answers.push(...answers.map((answer) => create(InputAnswerSchema, toInputAnswer(answer))));
  }
}
