import type { Answer, InputRequest } from '../../ask.ts';
import { DuolaneError, type ErrorCode, type Failure } from '../../errors.ts';
import { BlockTracker } from './block-tracker.ts';
import { CallTracker } from './call-tracker.ts';
import { isDelta, openingState } from '../fold/entry-rules.ts';
import { isOutcome, isInputRequest, parseEvent, normalizeRequest } from './parse-event.ts';
import { type AnswerListener, type OpenQuestion, OpenQuestions } from './open-questions.ts';
import { CANCELED_TEXT } from '../fold/recover-run.ts';
import { RunReporter } from './run-reporter.ts';
import type { RunStateOptions } from './run-state-options.ts';
import { StepTracker } from './step-tracker.ts';
import type { StepRecord } from '../step-types.ts';
import type { AgentEvent, Outcome, Usage } from '../types.ts';

type Of<Type extends AgentEvent['type']> = Extract<AgentEvent, { readonly type: Type }>;

/**
 * Reasons to stop after which the run appends no end: another claim holder has written it, or will
 * write it, or the task is handed on.
 */
const SILENT: ReadonlySet<ErrorCode> = new Set(['fenced', 'closed', 'suspended']);

/**
 * Turns what an agent yields, asks and throws into valid events: the nine laws as a pure machine.
 * It has no clock and awaits nothing; `normalizeAgent` drives it. An invalid event is dropped with
 * a warning, so that one mistake of an agent does not lose the run; only an end without a known
 * outcome fails it.
 */
export class RunStateMachine {
  readonly #options: RunStateOptions;
  readonly #reporter: RunReporter;
  readonly #blocks: BlockTracker;
  readonly #calls: CallTracker;
  readonly #steps = new StepTracker();
  readonly #questions: OpenQuestions;
  /** Whether an earlier run of the same turn was suspended or interrupted. */
  readonly #again: boolean;
  /** The text that the earlier runs of this turn wrote, if this run goes on after it. */
  #textBefore: string;
  readonly #artifacts: Set<string>;
  #started = false;
  #stopped: DuolaneError | undefined;
  // The run is suspended and a delta was dropped. The next run repeats what readers have seen and
  // goes on from there, so nothing that came after the delta may be shown.
  #isCutOff = false;
  #ended = false;

  constructor(options: RunStateOptions) {
    this.#options = options;
    this.#reporter = new RunReporter(options.turn, options.logger);
    const { task, turn, continues } = options;
    const opening = openingState(task, turn.messageId);
    this.#again = opening.again;
    this.#questions = new OpenQuestions(opening, { startsOver: !continues });
    this.#textBefore = opening.again && continues ? task.text : '';
    this.#artifacts = new Set(task.artifacts.map(({ artifactId }) => artifactId));
    this.#blocks = new BlockTracker(this.#reporter.warn);
    this.#calls = new CallTracker(task.calls, this.#reporter.warn);
  }

  /** Whether the run has ended: every further event of the agent is ignored. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Takes a value that the agent yielded; returns the events to write. */
  take(value: unknown): AgentEvent[] {
    if (this.#ended) return [];
    const event = parseEvent(value);
    if (typeof event === 'string') {
      this.#reporter.warn(event);
      return [];
    }
    if (this.#isFenced || this.#isCutOff) return [];
    if (event.type === 'run.started') return this.#restart(event);
    return [...this.#start(), ...this.#apply(event)];
  }

  /**
   * Takes a question that the agent asked by `ask`, which passes `onAnswer`, or yielded as an
   * event. Returns the question as the log has it, the answer if it is known, and the events to
   * write: none if the log has the question already.
   */
  question(
    asked: InputRequest,
    onAnswer?: AnswerListener,
  ): { request: InputRequest; answer?: Answer; events: AgentEvent[] } {
    const isYielded = onAnswer === undefined;
    const request = this.#questions.withOwnId(normalizeRequest(this.#named(asked)), isYielded);
    const answer = this.#questions.answerTo(request, isYielded);
    if (answer) return { request, answer, events: [] };
    if (this.#ended || this.#stopped) return { request, events: [] };
    const { request: open, isNew } = this.#questions.open(request, onAnswer);
    const events = this.#start();
    if (isNew) events.push({ type: 'input.required', request });
    return { request: open, events };
  }

  /** Takes a record of a durable step; returns the events to write, none if the run is over. */
  store(record: StepRecord): AgentEvent[] {
    if (this.#ended || this.#isFenced) return [];
    return [...this.#start(), { type: 'step.stored', ...record }];
  }

  /** Returns the failure that clients may see. Logs what they may not see. */
  readonly failureOf = (error: unknown): Failure => this.#reporter.failureOf(error);

  /** Takes an answer that a person gave while the run is alive. */
  answer(answer: Answer): void {
    this.#questions.answer(answer);
  }

  /** Removes one `ask` that no longer waits. The last one withdraws the question. */
  withdraw(id: string, onAnswer: AnswerListener): void {
    this.#questions.withdraw(id, onAnswer);
  }

  /**
   * Stops the run: from now on no delta passes, and the first `reason` decides how the run ends.
   */
  stop(reason: DuolaneError): void {
    this.#stopped ??= reason;
  }

  /** Ends the run: the agent has returned, has thrown, or is abandoned after its grace period. */
  end(thrown?: { readonly error: unknown }): AgentEvent[] {
    if (this.#ended) return [];
    if (this.#stopped) return this.#endStopped(this.#stopped);
    if (thrown) return this.#endThrown(thrown.error);
    return this.#finish({ type: 'run.finished', outcome: 'completed', text: '' });
  }

  get #isFenced(): boolean {
    return this.#stopped?.code === 'fenced' || this.#stopped?.code === 'closed';
  }

  #apply(event: Exclude<AgentEvent, { readonly type: 'run.started' }>): AgentEvent[] {
    if (this.#stopped && isDelta(event)) {
      this.#isCutOff = this.#stopped.code === 'suspended' && !this.#options.continues;
      return [];
    }
    switch (event.type) {
      case 'text.delta':
      case 'reasoning.delta':
        return this.#blocks.delta(event);
      case 'text.end':
      case 'reasoning.end':
        return this.#blocks.end(event, this.#stopped !== undefined);
      case 'tool.failed':
        return this.#tool({ ...event, error: this.#reporter.failureOf(event.error) });
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
      case 'step.stored':
      case 'run.suspended':
        this.#reporter.warn(`dropped ${event.type}: only ctx.step, sleep and waitFor write it`);
        return [];
      case 'retry':
        return this.#retry(event);
      case 'input.required':
        return this.#yieldQuestion(event.request);
      case 'artifact':
        return [this.#artifact(event)];
      case 'run.finished':
        // The end of a sub-agent does not end the run.
        if (event.path?.length) return [];
        return this.#stopped ? this.#endStopped(this.#stopped, event) : this.#finish(event);
      default:
        return [event];
    }
  }

  /**
   * The first event of an artifact begins it, even if it says `append`: there is nothing before.
   */
  #artifact(event: Of<'artifact'>): AgentEvent {
    const begun = this.#artifacts.has(event.artifactId);
    this.#artifacts.add(event.artifactId);
    if (begun || !event.append) return event;
    this.#reporter.warn(`artifact "${event.artifactId}" was appended to before it was begun`);
    const { append: _append, ...first } = event;
    return first;
  }

  #yieldQuestion(request: InputRequest): AgentEvent[] {
    if (isInputRequest(request) && !this.#questions.isFull) return this.question(request).events;
    this.#reporter.warn('dropped a question: it has no id, or too many questions are open');
    return [];
  }

  #start(own: Partial<Of<'run.started'>> = {}): AgentEvent[] {
    if (this.#started) return [];
    this.#started = true;
    const { task, turn, continues } = this.#options;
    const again = this.#again;
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

  /** The agent's own `run.started` adds what it knows; a second one of the run is dropped. */
  #restart({ model, sessionId, at, path, discard }: Of<'run.started'>): AgentEvent[] {
    if (path?.length) return [];
    const isVoid = discard === true && this.#again && !this.#started;
    if (isVoid) this.#textBefore = '';
    if (this.#started && sessionId !== undefined)
      this.#reporter.warn('dropped the session id of a late run.started: yield run.started first');
    return this.#start({
      ...(model !== undefined && { model }),
      ...(sessionId !== undefined && { sessionId }),
      ...(at !== undefined && { at }),
      ...(isVoid && { discard: true }),
    });
  }

  #tool(event: Parameters<CallTracker['take']>[0]): AgentEvent[] {
    const events = this.#spend(this.#calls.take(event));
    const calls = events.some(({ type }) => type === 'tool.called');
    return calls ? [...this.#blocks.close(event.path), ...events] : events;
  }

  /** A call that closes takes its questions and answers with it. */
  #spend(events: AgentEvent[]): AgentEvent[] {
    for (const event of events)
      if (event.type === 'tool.completed' || event.type === 'tool.failed')
        this.#questions.closeCall(event.callId);
    return events;
  }

  #retry(event: Of<'retry'>): AgentEvent[] {
    const { path } = event;
    const discard = event.discard === true;
    const closed = discard ? this.#blocks.close(path) : [];
    if (discard) this.#blocks.discard(path);
    return [...closed, { ...event, discard, error: this.#reporter.failureOf(event.error) }];
  }

  #endThrown(error: unknown): AgentEvent[] {
    const start = this.#start();
    const { code, message } = DuolaneError.from(error);
    if (code === 'suspended') {
      const wait = this.#wait(() => true);
      if (wait) return [...start, ...wait];
      if (this.#options.canSuspend?.()) return [...start, ...this.#suspend()];
      if (this.#options.canRunAgain) {
        this.#ended = true;
        return [...start, ...this.#blocks.closeAll()];
      }
    }
    // No stop was requested, so an error with one of these codes is a failure of the agent.
    const broken = code === 'canceled' || code === 'suspended' || code === 'fenced';
    const failure = broken
      ? new DuolaneError('interrupted', `the agent stopped early: ${message}`, { cause: error })
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
    if (code === 'suspended' && this.#options.canSuspend?.())
      return [...this.#start(), ...this.#suspend()];
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

  /** Ends the run as the agent says, or as completed if it returned without `run.finished`. */
  #finish(own: Of<'run.finished'>): AgentEvent[] {
    const events = this.#start();
    const { outcome } = own;
    const usage = own.usage && { usage: own.usage };
    const fail = (message: string): AgentEvent[] => {
      const error = new DuolaneError('invalid', message);
      return [...events, ...this.#close('failed', 'interrupted', { ...usage, error }, own)];
    };
    if (!isOutcome(outcome)) return fail('the agent ended without a known outcome');
    if (Array.isArray(own.pending))
      for (const request of own.pending) events.push(...this.#yieldQuestion(request));
    // The run waits for a question that was yielded even if the agent has returned. It waits for
    // one that was asked and not awaited only if the agent's end says that it waits.
    if (outcome === 'completed' || outcome === 'input-required') {
      const wait = this.#wait(({ yielded }) => yielded || outcome === 'input-required', own);
      if (wait) return [...events, ...wait];
    }
    if (outcome === 'input-required')
      return fail('the agent ended to wait for an answer, but no question is open');
    events.push(...this.#blocks.closeAll(), ...this.#missingText(own));
    const error = outcome === 'failed' ? (own.error ?? 'it failed without an error') : own.error;
    const more = {
      ...usage,
      ...(own.output !== undefined && { output: own.output }),
      ...(outcome !== 'completed' && error !== undefined && { error }),
    };
    return [...events, ...this.#close(outcome, 'interrupted', more, own)];
  }

  /** Returns the text that only the end has: all of it, if the agent did not stream. */
  #missingText({ text, outcome, at }: Of<'run.finished'>): AgentEvent[] {
    const streamed = this.#textBefore + this.#blocks.text;
    if (typeof text !== 'string' || outcome === 'canceled' || !text.startsWith(streamed)) return [];
    const delta = text.slice(streamed.length);
    const events = this.#blocks.delta({
      type: 'text.delta',
      id: 'text',
      delta,
      ...(at !== undefined && { at }),
    });
    return [...events, ...this.#blocks.closeAll()];
  }

  /** Ends the run as input-required; returns undefined if no such question is open. */
  #wait(
    counts: (question: OpenQuestion) => boolean,
    own: { readonly usage?: Usage; readonly at?: number } = {},
  ): AgentEvent[] | undefined {
    // A call whose arguments were still arriving cannot be finished later, so the run does not wait
    // for its questions.
    const pending = [...this.#questions.values()]
      .filter((question) => counts(question) && !this.#calls.isUnmade(question.request))
      .map(({ request }) => request);
    if (pending.length === 0) return undefined;
    const more = { pending, ...(own.usage && { usage: own.usage }) };
    return this.#close('input-required', 'interrupted', more, own);
  }

  /** Ends this call of the agent, which is called again when a durable wait is over. */
  #suspend(): AgentEvent[] {
    this.#ended = true;
    return [...this.#blocks.closeAll(), { type: 'run.suspended' }];
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
    // The sum of the steps wins; the end adds the fields that the steps did not report.
    const total = { ...usage, ...this.#steps.usage };
    const end: AgentEvent = {
      type: 'run.finished',
      outcome,
      text,
      ...rest,
      ...(Object.keys(total).length > 0 && { usage: total }),
      ...('error' in more && { error: this.#reporter.failureOf(error) }),
      ...(at !== undefined && { at }),
    };
    return [...events, end];
  }

  /** A call that got another id (`id#2`) takes its questions with it. */
  #named(request: InputRequest): InputRequest {
    const given = request.callId ?? request.id.split('/', 1)[0] ?? '';
    const callId = this.#calls.idOf(given);
    if (callId === given) return request;
    const id = request.id.startsWith(`${given}/`)
      ? callId + request.id.slice(given.length)
      : request.id;
    return { ...request, id, ...(request.callId !== undefined && { callId }) };
  }
}
