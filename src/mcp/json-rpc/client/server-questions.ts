import { createHash } from 'node:crypto';
import type { Answer, InputRequest } from '../../../ask.ts';
import type { JsonObject } from '../../../json.ts';
import { onAbort } from '../../../stream/abort.ts';
import type { Abortable } from '../../../stream/types.ts';
import { fromWire, keyOf, toResponse } from '../input-codec.ts';

/** Answers what a server asks before it answers one request of ours. */
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
 * What a server of the revisions with sessions asks while it works on one request. A question is
 * known by what it says and by how often it was said before, so an answer given to one run of a
 * call fits the same question of the next, and never another.
 */
export class ServerQuestions {
  readonly #callId: string;
  readonly #asked: (request: InputRequest) => void;
  readonly #times = new Map<string, number>();
  readonly #answers = new Map<string, Answer>();
  readonly #open = new Map<string, Question>();

  /** `asked` is told of every question that nobody has answered yet. */
  constructor(callId: string, asked: (request: InputRequest) => void) {
    this.#callId = callId;
    this.#asked = asked;
  }

  /** Those that wait for an answer and have not been taken back. */
  get open(): readonly InputRequest[] {
    return [...this.#open.values()].map(({ request }) => request);
  }

  give(answers: readonly Answer[]): void {
    for (const answer of answers) {
      const key = keyOf(this.#callId, answer);
      this.#answers.set(key, answer);
      this.#open.get(key)?.resolve(answer);
      this.#open.delete(key);
    }
  }

  /** Resolves with what to send to the server, as soon as somebody has given the answer. */
  readonly answer: AnswerServer = async (method, params, { signal }) => {
    const key = this.#keyOf(method, params);
    const request = fromWire(this.#callId, key, { method, params });
    const known = this.#answers.get(key);
    if (known) return toResponse(known, method);
    let unlisten = (): void => {};
    try {
      const answer = new Promise<Answer>((resolve, reject) => {
        this.#open.set(key, { request, resolve });
        unlisten = onAbort(signal, reject);
      });
      this.#asked(request);
      return toResponse(await answer, method);
    } finally {
      unlisten();
      this.#open.delete(key);
    }
  };

  #keyOf(method: string, params: JsonObject): string {
    const text = JSON.stringify([method, { ...params, _meta: undefined }]);
    const said = createHash('sha256').update(text).digest('base64url').slice(0, 16);
    const times = (this.#times.get(said) ?? 0) + 1;
    this.#times.set(said, times);
    return times === 1 ? said : `${said}-${times}`;
  }
}
