import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError, type ErrorCode, type Failure } from '../../errors.ts';
import { BlockTracker } from './block-tracker.ts';
import { CallTracker } from './call-tracker.ts';
import { belongsTo, isDelta, openingState } from '../fold/entry-rules.ts';
import {
  isOutcome,
  isInputRequest,
  toPublicFailure,
  parseEvent,
  normalizeRequest,
} from './parse-event.ts';
import { isSameQuestion, type OpenQuestion, OpenQuestions } from './open-questions.ts';
import { CANCELED_TEXT } from '../fold/recover-run.ts';
import { StepTracker } from './step-tracker.ts';
import type { AgentEvent, Logger, Outcome, Snapshot, Turn, Usage } from '../types.ts';

type Of<Type extends AgentEvent['type']> = Extract<AgentEvent, { readonly type: Type }>;

export interface LawsOptions {
  readonly turn: Turn;
  readonly task: Snapshot;
  /** Whether a further call of the agent goes on where the log ends. */
  readonly continues: boolean;
  /** Hears what was dropped or withheld, and why. */
  readonly logger: Logger;
}

const MAX_WARNINGS = 20;

/** Reasons to stop after which nothing more is said: somebody else has, or will. */
const SILENT: ReadonlySet<ErrorCode> = new Set(['fenced', 'closed', 'suspended']);

/**
 * The nine laws as a pure machine: whatever an agent does goes in, lawful events come out. It has
 * no clock and waits for nothing; `lawful` drives it. What is no event is dropped with a warning,
 * since a sloppy agent is no reason to lose a run; only an end that makes no sense fails it.
 */
export class RunStateMachine {
  readonly #options: LawsOptions;
  readonly #blocks: BlockTracker;
  readonly #calls: CallTracker;
  readonly #steps = new StepTracker();
  readonly #opening: ReturnType<typeof openingState>;
  readonly #questions = new OpenQuestions();
  /** Not spent yet. */
  readonly #answers: Map<string, Answer>;
  /** Questions of the run before that are open, or whose answers are not spent. */
  readonly #before: Map<string, InputRequest>;
  /** Ids of questions whose call has closed. */
  readonly #spent = new Set<string>();
  readonly #textBefore: string;
  readonly #artifacts: Set<string>;
  #started = false;
  #stopped: DuolaneError | undefined;
  #ended = false;
  #warnings = 0;

  constructor(options: LawsOptions) {
    this.#options = options;
    const { task, turn, continues } = options;
    this.#opening = openingState(task, turn.messageId);
    this.#answers = new Map(this.#opening.answers.map((answer) => [answer.id, answer]));
    const before = [...this.#opening.answered, ...this.#opening.pending];
    this.#before = new Map(before.map((request) => [request.id, request]));
    this.#textBefore = this.#opening.again && continues ? task.text : '';
    this.#artifacts = new Set(task.artifacts.map(({ artifactId }) => artifactId));
    this.#blocks = new BlockTracker(this.#warn);
    this.#calls = new CallTracker(task.calls, this.#warn);
  }

  /** Whether the run is over: every further event of the agent is ignored. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The agent yielded this. */
  take(value: unknown): AgentEvent[] {
    if (this.#ended) return [];
    const event = parseEvent(value);
    if (typeof event === 'string') {
      this.#warn(event);
      return [];
    }
    if (this.#stopped?.code === 'fenced' || this.#stopped?.code === 'closed') return [];
    if (event.type === 'run.started') return this.#restart(event);
    return [...this.#start(), ...this.#apply(event)];
  }

  /**
   * The agent asks, by `ask` or by an event. `request` is the question as it stands in the log,
   * `answer` what is known, `events` what is to be written, if it is not there already.
   */
  question(
    asked: InputRequest,
    yielded: boolean,
  ): { request: InputRequest; answer?: Answer; events: AgentEvent[] } {
    const request = this.#unspent(normalizeRequest(this.#named(asked)), yielded);
    const answer = this.#answers.get(request.id);
    if (answer) {
      if (!yielded) this.#questions.checkAnswered(request);
      return { request, answer, events: [] };
    }
    if (this.#ended || this.#stopped) return { request, events: [] };
    const open = this.#questions.ask(request, yielded);
    if (open) return { request: open, events: [] };
    if (this.#opening.pending.some((known) => known.id === request.id))
      return { request, events: this.#start() };
    return { request, events: [...this.#start(), { type: 'input.required', request }] };
  }

  /** Somebody answered while the run was alive. */
  answered(answer: Answer): void {
    this.#questions.answered(answer.id);
    this.#answers.set(answer.id, answer);
  }

  /** One asker no longer waits. The question is withdrawn with its last asker. */
  forget(id: string): void {
    this.#questions.forget(id);
  }

  /** From now on no delta passes, and `reason` decides how the run ends. */
  stop(reason: DuolaneError): void {
    this.#stopped ??= reason;
  }

  /** The agent is through, has thrown, or is left behind. */
  end(thrown?: { readonly error: unknown }): AgentEvent[] {
    if (this.#ended) return [];
    if (this.#stopped) return this.#endStopped(this.#stopped);
    if (thrown) return this.#endThrown(thrown.error);
    return this.#finish({ type: 'run.finished', outcome: 'completed', text: '' });
  }

  #apply(event: Exclude<AgentEvent, { readonly type: 'run.started' }>): AgentEvent[] {
    if (this.#stopped && isDelta(event)) return [];
    switch (event.type) {
      case 'text.delta':
      case 'reasoning.delta':
        return this.#blocks.delta(event);
      case 'text.end':
      case 'reasoning.end':
        return this.#blocks.end(event, this.#stopped !== undefined);
      case 'tool.failed':
        return this.#tool({ ...event, error: this.#outward(event.error) });
      case 'tool.started':
      case 'tool.args':
      case 'tool.called':
      case 'tool.progress':
      case 'tool.completed':
        return this.#tool(event);
      case 'step.started':
      case 'step.finished': {
        const closed = this.#blocks.close(event.path);
        this.#blocks.mark(event.path);
        const steps =
          event.type === 'step.started' ? this.#steps.start(event) : this.#steps.finish(event);
        return [...closed, ...steps];
      }
      case 'retry':
        return this.#retry(event);
      case 'input.required':
        return this.#yieldQuestion(event.request);
      case 'artifact':
        return [this.#artifact(event)];
      case 'run.finished':
        // A sub-agent that ends does not end the run.
        if (event.path?.length) return [];
        return this.#stopped ? this.#endStopped(this.#stopped, event) : this.#finish(event);
      default:
        return [event];
    }
  }

  /** What is appended to must be there; a first piece begins it, whatever it says. */
  #artifact(event: Of<'artifact'>): AgentEvent {
    const begun = this.#artifacts.has(event.artifactId);
    this.#artifacts.add(event.artifactId);
    if (begun || !event.append) return event;
    this.#warn(`artifact ${event.artifactId} was appended to before it was begun`);
    const { append: _append, ...first } = event;
    return first;
  }

  #yieldQuestion(request: InputRequest): AgentEvent[] {
    if (isInputRequest(request) && !this.#questions.isFull)
      return this.question(request, true).events;
    this.#warn('a question was dropped: it has no id, or too many are open');
    return [];
  }

  #start(own: Partial<Of<'run.started'>> = {}): AgentEvent[] {
    if (this.#started) return [];
    this.#started = true;
    const { task, turn, continues } = this.#options;
    const { again } = this.#opening;
    return [
      {
        ...own,
        type: 'run.started',
        turn: turn.messageId,
        attempt: again ? task.attempt + 1 : 1,
        ...(again && !continues && { discard: true }),
      },
    ];
  }

  #restart({ model, sessionId, at, path }: Of<'run.started'>): AgentEvent[] {
    if (path?.length) return [];
    if (this.#started && sessionId !== undefined)
      this.#warn('run.started came late, so its session id is lost; yield it first');
    return this.#start({
      ...(model !== undefined && { model }),
      ...(sessionId !== undefined && { sessionId }),
      ...(at !== undefined && { at }),
    });
  }

  #tool(event: Parameters<CallTracker['take']>[0]): AgentEvent[] {
    const events = this.#spend(this.#calls.take(event));
    const calls = events.some(({ type }) => type === 'tool.called');
    return calls ? [...this.#blocks.close(event.path), ...events] : events;
  }

  /** A call that closes takes its questions and answers with it. */
  #spend(events: AgentEvent[]): AgentEvent[] {
    for (const event of events) {
      if (event.type !== 'tool.completed' && event.type !== 'tool.failed') continue;
      const { callId } = event;
      for (const id of this.#questions.withdraw(callId)) this.#spent.add(id);
      for (const id of this.#answers.keys()) {
        if (!belongsTo(id, callId)) continue;
        this.#answers.delete(id);
        this.#spent.add(id);
      }
    }
    return events;
  }

  #retry(event: Of<'retry'>): AgentEvent[] {
    const { path } = event;
    const discard = event.discard === true;
    const closed = discard ? this.#blocks.close(path) : [];
    if (discard) this.#blocks.discard(path);
    return [...closed, { ...event, discard, error: this.#outward(event.error) }];
  }

  #endThrown(error: unknown): AgentEvent[] {
    const start = this.#start();
    const { code, message } = DuolaneError.from(error);
    if (code === 'suspended') {
      const wait = this.#wait(() => true);
      if (wait) return [...start, ...wait];
    }
    // Nobody has asked this run to stop, so it was not stopped: something broke it off.
    const broken = code === 'canceled' || code === 'suspended' || code === 'fenced';
    const failure = broken
      ? new DuolaneError('interrupted', `The agent broke off: ${message}`, { cause: error })
      : DuolaneError.from(error);
    return [...start, ...this.#close('failed', 'interrupted', { error: failure })];
  }

  #endStopped(reason: DuolaneError, own?: Of<'run.finished'>): AgentEvent[] {
    const { code } = reason;
    const usage = own?.usage && { usage: own.usage };
    if (code === 'suspended' && this.#questions.size > 0) {
      const start = this.#start();
      const wait = this.#wait(() => true, own);
      if (wait) return [...start, ...wait];
    }
    if (SILENT.has(code)) {
      this.#ended = true;
      return code === 'suspended' ? this.#blocks.closeAll() : [];
    }
    const ending =
      code === 'canceled'
        ? this.#close('canceled', 'canceled', { ...usage })
        : this.#close('failed', 'interrupted', { ...usage, error: reason });
    return [...this.#start(), ...ending];
  }

  /** The agent's own end, or the one that it forgot. */
  #finish(own: Of<'run.finished'>): AgentEvent[] {
    const events = this.#start();
    const { outcome } = own;
    const usage = own.usage && { usage: own.usage };
    const fail = (message: string): AgentEvent[] => {
      const error = new DuolaneError('invalid', message);
      return [...events, ...this.#close('failed', 'interrupted', { ...usage, error }, own)];
    };
    if (!isOutcome(outcome)) return fail('The agent ended with no known outcome.');
    if (Array.isArray(own.pending))
      for (const request of own.pending) events.push(...this.#yieldQuestion(request));
    // A question that was yielded waits though the agent is through; one that was asked and not
    // awaited does so only if the agent says that it ends to wait.
    if (outcome === 'completed' || outcome === 'input-required') {
      const wait = this.#wait(({ yielded }) => yielded || outcome === 'input-required', own);
      if (wait) return [...events, ...wait];
    }
    if (outcome === 'input-required')
      return fail('The agent ended to wait for an answer, but no question is open.');
    events.push(...this.#blocks.closeAll(), ...this.#unsaid(own));
    const error = outcome === 'failed' ? (own.error ?? 'it failed without an error') : own.error;
    const more = {
      ...usage,
      ...(own.output !== undefined && { output: own.output }),
      ...(outcome !== 'completed' && error !== undefined && { error }),
    };
    return [...events, ...this.#close(outcome, 'interrupted', more, own)];
  }

  /** Text that only the end knows: all of it, if the agent did not stream. */
  #unsaid({ text, outcome, at }: Of<'run.finished'>): AgentEvent[] {
    const said = this.#textBefore + this.#blocks.text;
    if (typeof text !== 'string' || outcome === 'canceled' || !text.startsWith(said)) return [];
    const delta = text.slice(said.length);
    const events = this.#blocks.delta({
      type: 'text.delta',
      id: 'text',
      delta,
      ...(at !== undefined && { at }),
    });
    return [...events, ...this.#blocks.closeAll()];
  }

  /** Ends the run to wait; nothing if no such question is open. */
  #wait(
    counts: (question: OpenQuestion) => boolean,
    own: { readonly usage?: Usage; readonly at?: number } = {},
  ): AgentEvent[] | undefined {
    // A call whose arguments were still coming cannot be finished later, so nobody waits for it.
    const pending = [...this.#questions.values()]
      .filter((question) => counts(question) && !this.#calls.isUnmade(question.request))
      .map(({ request }) => request);
    if (pending.length === 0) return undefined;
    const usage = own.usage && { usage: own.usage };
    return this.#close('input-required', 'interrupted', { pending, ...usage }, own);
  }

  #close(
    outcome: Outcome,
    callCode: ErrorCode,
    more: Partial<Omit<Of<'run.finished'>, 'error'>> & { readonly error?: unknown },
    { at }: { readonly at?: number } = {},
  ): AgentEvent[] {
    this.#ended = true;
    const events = [
      ...this.#blocks.closeAll(),
      ...this.#calls.closeAll(callCode, outcome === 'input-required'),
      ...this.#steps.closeAll(),
    ];
    const text = outcome === 'canceled' ? CANCELED_TEXT : this.#textBefore + this.#blocks.text;
    const { error, usage, ...rest } = more;
    // What the steps have counted counts; the end may add what they did not say.
    const total = { ...usage, ...this.#steps.usage };
    const end: AgentEvent = {
      type: 'run.finished',
      outcome,
      text,
      ...rest,
      ...(Object.keys(total).length > 0 && { usage: total }),
      ...('error' in more && { error: this.#outward(error) }),
      ...(at !== undefined && { at }),
    };
    return [...events, end];
  }

  /** A call that had to be renamed takes its questions with it. */
  #named(request: InputRequest): InputRequest {
    const given = request.callId ?? request.id.split('/', 1)[0] ?? '';
    const callId = this.#calls.idOf(given);
    if (callId === given) return request;
    const id = request.id.startsWith(`${given}/`)
      ? callId + request.id.slice(given.length)
      : request.id;
    return { ...request, id, ...(request.callId !== undefined && { callId }) };
  }

  /**
   * A question under the id of one whose call has closed is another question: a model may give two
   * calls one id. So is one with other content than the run before asked under its id. The log may
   * still have the old answer, or get it, and the person did not give it to this question. So the
   * question gets an id of its own.
   */
  #unspent(request: InputRequest, yielded: boolean): InputRequest {
    const isTaken = (id: string): boolean => {
      const before = this.#before.get(id);
      return (
        this.#spent.has(id) ||
        (!yielded && before !== undefined && !isSameQuestion(before, request))
      );
    };
    let { id } = request;
    for (let times = 2; isTaken(id); times += 1) id = `${request.id}#${times}`;
    // From here on it is a question of this run.
    if (!yielded) this.#before.delete(id);
    return id === request.id ? request : { ...request, id };
  }

  #outward(value: unknown): Failure {
    const { agent, task } = this.#options.turn;
    return toPublicFailure(value, (message, stack) =>
      this.#options.logger.error(`agent ${agent} failed: ${message}`, {
        task,
        ...(stack !== undefined && { stack }),
      }),
    );
  }

  readonly #warn = (message: string): void => {
    if (this.#warnings++ >= MAX_WARNINGS) return;
    const { agent, task } = this.#options.turn;
    const last =
      this.#warnings === MAX_WARNINGS ? '; further warnings of this run are kept back' : '';
    this.#options.logger.warn(`agent ${agent}: ${message}${last}`, { task });
  };
}
