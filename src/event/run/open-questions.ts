import type { InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { belongsTo } from '../fold/entry-rules.ts';
import { encodeEntry } from '../entry-codec.ts';
import { truncateEvent } from '../truncate-event.ts';

export interface OpenQuestion {
  readonly request: InputRequest;
  /** Yielded as an event, so nothing in the agent holds a promise for it. */
  readonly yielded: boolean;
  /** How many calls of `ask` wait for the answer. */
  askers: number;
}

/** More open questions than this are a loop, not a conversation. */
const MAX_QUESTIONS = 1000;

/** The questions of a run that are not answered. Several askers may wait for one. */
export class OpenQuestions {
  readonly #open = new Map<string, OpenQuestion>();
  /** As they were asked in this run, until their answer is spent. */
  readonly #answered = new Map<string, InputRequest>();

  get size(): number {
    return this.#open.size;
  }

  get isFull(): boolean {
    return this.#open.size >= MAX_QUESTIONS;
  }

  /** The question as it is open, if it was open before; otherwise it is from now on. */
  ask(request: InputRequest, yielded: boolean): InputRequest | undefined {
    const open = this.#open.get(request.id);
    if (open) {
      // One approval must not decide about something that the person was not shown.
      if (!yielded && !isSameQuestion(open.request, request))
        throw otherContent(request, 'is already open');
      if (!yielded) open.askers++;
      return open.request;
    }
    if (this.isFull)
      throw new DuolaneError(
        'too_large',
        `${MAX_QUESTIONS} questions are open; wait for an answer before you ask the next`,
      );
    this.#open.set(request.id, { request, yielded, askers: yielded ? 0 : 1 });
    return undefined;
  }

  answered(id: string): void {
    const request = this.#open.get(id)?.request;
    if (request) this.#answered.set(id, request);
    this.#open.delete(id);
  }

  /**
   * The question has an answer already. Throws if this is another question than the one that was answered in this run under the id: the
   * person was never shown it, so the answer does not decide it.
   */
  checkAnswered(request: InputRequest): void {
    const answered = this.#answered.get(request.id);
    if (answered && !isSameQuestion(answered, request))
      throw otherContent(request, 'was already answered');
    this.#answered.set(request.id, request);
  }

  /** One asker no longer waits. The question is withdrawn with its last asker. */
  forget(id: string): void {
    const question = this.#open.get(id);
    if (question && --question.askers <= 0) this.#open.delete(id);
  }

  /** Questions of a call go with it; returns their ids. */
  withdraw(callId: string): readonly string[] {
    const open = [...this.#open].filter(
      ([id, { request }]) => request.callId === callId || belongsTo(id, callId),
    );
    const answered = [...this.#answered.keys()].filter((id) => belongsTo(id, callId));
    for (const [id] of open) this.#open.delete(id);
    for (const id of answered) this.#answered.delete(id);
    return [...open.map(([id]) => id), ...answered];
  }

  values(): Iterable<OpenQuestion> {
    return this.#open.values();
  }
}

const otherContent = ({ id }: InputRequest, what: string): DuolaneError =>
  new DuolaneError(
    'invalid',
    `question "${id}" ${what} with other content; give each question its own id`,
  );

/**
 * Whether both ask a person the same. Two calls with equal arguments do, so `callId` does not count.
 * They are compared as the log stores them: a long question is truncated there.
 */
export const isSameQuestion = (one: InputRequest, other: InputRequest): boolean =>
  one === other || storedContent(one) === storedContent(other);

function storedContent({ kind, message, schema, data }: InputRequest): string {
  const request = { id: '', kind, message, schema, data } as InputRequest;
  return encodeEntry({ ...truncateEvent({ type: 'input.required', request }), seq: 1, at: 0 });
}
