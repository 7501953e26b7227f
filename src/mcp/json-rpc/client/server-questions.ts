import { createHash } from 'node:crypto';
import type { Answer, InputRequest } from '../../../ask.ts';
import type { JsonObject } from '../../../json.ts';
import { raceAbort } from '../../../stream/abort.ts';
import type { Abortable } from '../../../stream/types.ts';
import { fromWire, keyOf, toResponse } from '../../sources/input-codec.ts';

/** Handles questions that a server asks before it responds to one of our requests. */
export type AnswerServer = (
  method: string,
  params: JsonObject,
  options: Abortable,
) => Promise<JsonObject>;

interface Question {
  readonly request: InputRequest;
  readonly resolve: (answer: Answer) => void;
}

/**
 * The questions of a server of the session protocol during one request. A question is identified by
 * its content and by how often it was asked before, so the answer to a question in one run of a
 * call fits the same question in the next run, and no other.
 */
export class ServerQuestions {
  readonly #callId: string;
  readonly #asked: (request: InputRequest) => void;
  readonly #times = new Map<string, number>();
  readonly #answers = new Map<string, Answer>();
  readonly #open = new Map<string, Question>();

  /** `asked` is called for every question without an answer. */
  constructor(callId: string, asked: (request: InputRequest) => void) {
    this.#callId = callId;
    this.#asked = asked;
  }

  /** The questions that wait for an answer and were not cancelled. */
  get open(): readonly InputRequest[] {
    return [...this.#open.values()].map(({ request }) => request);
  }

  /** Adds answers, also to questions that will be asked later. */
  give(answers: readonly Answer[]): void {
    for (const answer of answers) {
      const key = keyOf(this.#callId, answer);
      this.#answers.set(key, answer);
      this.#open.get(key)?.resolve(answer);
      this.#open.delete(key);
    }
  }

  /** Resolves with the response for the server as soon as the answer is given. */
  readonly answer: AnswerServer = async (method, params, { signal }) => {
    const key = this.#keyOf(method, params);
    const request = fromWire(this.#callId, key, { method, params });
    const known = this.#answers.get(key);
    if (known) return toResponse(known, method);
    try {
      const answer = new Promise<Answer>((resolve) => this.#open.set(key, { request, resolve }));
      this.#asked(request);
      return toResponse(await raceAbort(answer, signal), method);
    } finally {
      this.#open.delete(key);
    }
  };

  #keyOf(method: string, params: JsonObject): string {
    const text = JSON.stringify([method, { ...params, _meta: undefined }]);
    const digest = createHash('sha256').update(text).digest('base64url').slice(0, 16);
    const times = (this.#times.get(digest) ?? 0) + 1;
    this.#times.set(digest, times);
    return times === 1 ? digest : `${digest}-${times}`;
  }
}
