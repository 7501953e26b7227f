import { isDeepStrictEqual } from 'node:util';
import type { Answer, InputRequest } from '../../ask.ts';
import type { AgentContext, Turn } from '../../event/types.ts';
import { asObject, asString, isObject } from '../../json.ts';
import type { Interrupt } from './graph-reader.ts';

export type Answered = readonly [interrupt: Interrupt, answer: Answer];

/**
 * The questions that the interrupts of a graph become. LangGraph gives all `interrupt()` calls of
 * one execution of a node the same id, so a further one gets a number (`…~2`): each question has
 * its own answer, also after a restart.
 */
export class InterruptQuestions {
  readonly #turn: Turn;
  readonly #ctx: AgentContext;
  /** By the id of the interrupt, how often it was asked. */
  readonly #asked = new Map<string, number>();

  constructor(turn: Turn, ctx: AgentContext) {
    this.#turn = turn;
    this.#ctx = ctx;
    for (const { id } of ctx.task.answers) {
      const { interrupt, count } = interruptIn(id);
      this.#asked.set(interrupt, Math.max(this.#asked.get(interrupt) ?? 0, count));
    }
  }

  /** Whether the log has an answer to a question of this interrupt. */
  wasAsked(interrupt: string): boolean {
    return this.#asked.has(interrupt);
  }

  askAll(interrupts: readonly Interrupt[]): Promise<readonly Answered[]> {
    return Promise.all(
      interrupts.map(async (interrupt) => [interrupt, await this.#ask(interrupt)] as const),
    );
  }

  /**
   * Returns the answers of the log to the interrupts for which a graph waits. A question that was
   * not logged before the process ended is asked now.
   */
  resumeAll(interrupts: readonly Interrupt[]): Promise<readonly Answered[]> {
    return Promise.all(
      interrupts.map(
        async (interrupt) =>
          [interrupt, this.#known(interrupt) ?? (await this.#ask(interrupt))] as const,
      ),
    );
  }

  #ask(interrupt: Interrupt): Promise<Answer> {
    const { ask, signal } = this.#ctx;
    const count = (this.#asked.get(interrupt.id) ?? 0) + 1;
    this.#asked.set(interrupt.id, count);
    return ask(this.#question(interrupt, count), { signal });
  }

  /** The answer to the last question of the interrupt, if that question is the one that waits. */
  #known(interrupt: Interrupt): Answer | undefined {
    const { answers, answered = [] } = this.#ctx.task;
    const last = this.#asked.get(interrupt.id);
    const answer = answers.findLast(({ id }) => {
      const { interrupt: given, count } = interruptIn(id);
      return given === interrupt.id && count === last;
    });
    const asked = answered.find(({ id }) => id === answer?.id);
    const waiting = this.#question(interrupt, 1);
    // A checkpointer may return the members of a value in another order.
    const isSame = !asked || isDeepStrictEqual(contentOf(asked), contentOf(waiting));
    return isSame ? answer : undefined;
  }

  #question({ id, value, callId }: Interrupt, count: number): InputRequest {
    const message = typeof value === 'string' ? value : asString(asObject(value)['message']);
    return {
      id: `${callId ?? this.#turn.messageId}/${suffix(id, count)}`,
      kind: callId === undefined ? 'question' : 'approval',
      ...(message !== '' && { message }),
      ...(callId !== undefined && { callId }),
      ...(isObject(value) && { data: value }),
    };
  }
}

const suffix = (interrupt: string, count: number): string =>
  count === 1 ? interrupt : `${interrupt}~${count}`;

/** The interrupt in the id of its question, and the number of that question. */
function interruptIn(question: string): { readonly interrupt: string; readonly count: number } {
  const [last = ''] = question.slice(question.lastIndexOf('/') + 1).split('#', 1);
  const [interrupt = '', count = '1'] = last.split('~');
  return { interrupt, count: Number(count) };
}

/** What the person saw, as JSON stores it. */
const contentOf = ({ message, data }: InputRequest): unknown =>
  JSON.parse(JSON.stringify([message ?? '', data ?? null]));
