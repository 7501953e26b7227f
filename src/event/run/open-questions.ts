import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError } from '../../errors.ts';
import { encodeEntry } from '../entry-codec.ts';
import { belongsTo, type OpeningState } from '../fold/entry-rules.ts';
import { truncateEvent } from '../truncate-event.ts';

/** Called with the answer to a question. */
export type AnswerListener = (answer: Answer) => void;

/** A question of an earlier run of the turn, and what a person answered. */
export interface AnsweredQuestion {
  readonly request: InputRequest;
  readonly answer: Answer;
}

/** A question that the run waits for. */
export interface OpenQuestion {
  readonly request: InputRequest;
  /** The agent yielded it as an event, so the run waits for it even if no `ask` does. */
  readonly yielded: boolean;
  /** One listener for each `ask` that waits for the answer; parallel calls may ask the same. */
  readonly askers: Set<AnswerListener>;
}

/** A question that the log has. */
interface KnownQuestion {
  /** Its content; undefined if an older log has only the answer. */
  request: InputRequest | undefined;
  answer?: Answer;
  /**
   * Whether this run asked it and did not withdraw it. Otherwise the question is of the run before,
   * and a question with other content under its id is another question.
   */
  isOwn: boolean;
  /** It is of a run that this one repeats, so a later call with the same id may have asked it. */
  readonly isEarlier?: true;
}

/** More open questions than this are a loop of the agent, not a conversation. */
const MAX_QUESTIONS = 1000;

/**
 * The questions of a run: those that are open, those of the run before, and the answers that are
 * not spent. An answer decides only the question that the person saw, also after a restart: a
 * question with other content never gets it.
 */
export class OpenQuestions {
  readonly #open = new Map<string, OpenQuestion>();
  readonly #known = new Map<string, KnownQuestion>();
  /** Ids of questions whose call has closed. */
  readonly #spent = new Set<string>();

  /**
   * Takes over the questions and answers that the run finds in the log. `earlier`: those of a run
   * that starts over and asks them again, although their calls have closed.
   */
  constructor(
    { pending, answers, answered }: OpeningState,
    earlier: readonly AnsweredQuestion[] = [],
  ) {
    for (const { request, answer } of earlier)
      this.#known.set(request.id, { request, answer, isOwn: false, isEarlier: true });
    for (const request of answered) this.#known.set(request.id, { request, isOwn: false });
    for (const request of pending) this.#known.set(request.id, { request, isOwn: false });
    for (const answer of answers) {
      const known = this.#known.get(answer.id);
      if (known) known.answer = answer;
      else this.#known.set(answer.id, { request: undefined, answer, isOwn: false });
    }
  }

  get size(): number {
    return this.#open.size;
  }

  get isFull(): boolean {
    return this.#open.size >= MAX_QUESTIONS;
  }

  values(): Iterable<OpenQuestion> {
    return this.#open.values();
  }

  /**
   * Returns the question under an id that no other question has. An id is taken if its call has
   * closed (a model may give two calls one id), or if the log has another question of an earlier
   * run, or a withdrawn one, under it: the person may have answered, or may still answer, that one.
   */
  withOwnId(request: InputRequest, isYielded: boolean): InputRequest {
    let { id } = request;
    for (let times = 2; this.#isTaken(id, request, isYielded); times += 1)
      id = `${request.id}#${times}`;
    const known = this.#known.get(id);
    if (known && !isYielded) known.isOwn = true;
    return id === request.id ? request : { ...request, id };
  }

  #isTaken(id: string, request: InputRequest, isYielded: boolean): boolean {
    if (this.#spent.has(id)) return true;
    const known = this.#known.get(id);
    if (isYielded || known?.request === undefined || known.isOwn) return false;
    return !isSameQuestion(known.request, request);
  }

  /**
   * Returns the answer, if the question has one. Throws if this run asked other content under the
   * same id: the person was not shown this question, so the answer does not decide it.
   */
  answerTo(request: InputRequest, isYielded: boolean): Answer | undefined {
    const known = this.#known.get(request.id);
    if (!known?.answer || isYielded) return known?.answer;
    known.request ??= request;
    if (!isSameQuestion(known.request, request))
      throw otherContent(request, 'was already answered');
    return known.answer;
  }

  /**
   * Opens the question, or joins the one that is open under its id. Without `onAnswer` the agent
   * has yielded it. `isNew`: the log does not have it yet. Throws if other content is open under
   * the id: one approval must not decide about something that the person was not shown.
   */
  open(
    request: InputRequest,
    onAnswer: AnswerListener | undefined,
  ): { readonly request: InputRequest; readonly isNew: boolean } {
    const open = this.#open.get(request.id);
    if (open) {
      if (onAnswer && !isSameQuestion(open.request, request))
        throw otherContent(request, 'is already open');
      if (onAnswer) open.askers.add(onAnswer);
      return { request: open.request, isNew: false };
    }
    if (this.isFull)
      throw new DuolaneError(
        'too_large',
        `cannot ask: ${MAX_QUESTIONS} questions are open; wait for an answer first`,
      );
    const askers = new Set<AnswerListener>();
    if (onAnswer) askers.add(onAnswer);
    this.#open.set(request.id, { request, yielded: !onAnswer, askers });
    const isNew = !this.#known.has(request.id);
    if (isNew) this.#known.set(request.id, { request, isOwn: true });
    return { request, isNew };
  }

  /**
   * Keeps the answer, and calls each `ask` that waits for it. The first answer counts; an answer to
   * a question that the log does not have is ignored.
   */
  answer(answer: Answer): void {
    const known = this.#known.get(answer.id);
    if (!known || known.answer) return;
    known.answer = answer;
    const open = this.#open.get(answer.id);
    this.#open.delete(answer.id);
    for (const onAnswer of open?.askers ?? []) onAnswer(answer);
  }

  /**
   * One `ask` no longer waits. Its last asker withdraws a question; the log keeps it until the run
   * ends, so the same question may be asked again.
   */
  withdraw(id: string, onAnswer: AnswerListener): void {
    const open = this.#open.get(id);
    if (!open?.askers.delete(onAnswer) || open.askers.size > 0) return;
    this.#open.delete(id);
    const known = this.#known.get(id);
    if (known) known.isOwn = false;
  }

  /** Withdraws the questions of a call that has closed, and spends their answers. */
  closeCall(callId: string): void {
    for (const [id, { request }] of this.#open)
      if (request.callId === callId || belongsTo(id, callId)) this.#spend(id);
    const spent = new Set<string>();
    for (const [id, { isEarlier }] of this.#known) {
      if (!belongsTo(id, callId)) continue;
      // `id#2` is of the next call with this id.
      const base = id.replace(/#\d+$/, '');
      if (isEarlier && spent.has(base)) continue;
      spent.add(base);
      this.#spend(id);
    }
  }

  #spend(id: string): void {
    this.#open.delete(id);
    this.#known.delete(id);
    this.#spent.add(id);
  }
}

const otherContent = ({ id }: InputRequest, what: string): DuolaneError =>
  new DuolaneError(
    'invalid',
    `question "${id}" ${what} with other content; give each question its own id`,
  );

/**
 * Whether both ask a person the same. Two calls with equal arguments do, so `callId` does not
 * count. Compares what the log stores, since it truncates a long question.
 */
const isSameQuestion = (one: InputRequest, other: InputRequest): boolean =>
  one === other || storedContent(one) === storedContent(other);

function storedContent({ kind, message, schema, data }: InputRequest): string {
  const request = { id: '', kind, message, schema, data } as InputRequest;
  return encodeEntry({ ...truncateEvent({ type: 'input.required', request }), seq: 1, at: 0 });
}
