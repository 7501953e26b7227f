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
      const [, interrupt, count] = /([^/]+?)(?:~(\d+))?(?:#\d+)?$/.exec(id) ?? [];
      if (interrupt === undefined) continue;
      const known = this.#asked.get(interrupt) ?? 0;
      this.#asked.set(interrupt, Math.max(known, Number(count ?? 1)));
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
    const end = suffix(interrupt.id, this.#asked.get(interrupt.id) ?? 1);
    const answer = answers.findLast(({ id }) => id.replace(/#\d+$/, '').endsWith(`/${end}`));
    const asked = answered.find(({ id }) => id === answer?.id);
    const { message, data } = this.#question(interrupt, 1);
    const isSame = !asked || contentOf(asked) === contentOf({ message, data });
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

const contentOf = ({
  message,
  data,
}: {
  readonly message?: unknown;
  readonly data?: unknown;
}): string => JSON.stringify([message, data]);
