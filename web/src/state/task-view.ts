import type { InputRequest } from '../../../src/ask.ts';
import type { Entry, Snapshot } from '../../../src/event/types.ts';
import { ContractCheck } from './contract-check.ts';
import { duration } from './format-time.ts';
import { readFrame, shortName, displayToolName } from './frame-facts.ts';
import { answerText, OUTCOME_TEXTS, messageText, stepText } from './row-text.ts';
import { sourcesIn, type CitedSource } from './cited-sources.ts';
import { SpanBoard, type TraceSpan } from './span-board.ts';
import type { TimelineRow, TimeMarker } from './timeline-row.ts';
import { TokenTimes } from './token-times.ts';

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;
type BlockEntry = Of<'text.delta' | 'reasoning.delta' | 'text.end' | 'reasoning.end'>;

/**
 * What the page shows of a task: a fold of its entries without side effects. An entry costs O(1),
 * and O(open spans) where it opens or closes one.
 */
export class TaskView {
  readonly contract: ContractCheck = new ContractCheck();
  readonly rows: TimelineRow[] = [];
  readonly spans: SpanBoard = new SpanBoard();
  readonly markers: TimeMarker[] = [];
  readonly tokens: TokenTimes = new TokenTimes();
  /** Messages, questions and answers of people and text of the agent, without sub-agents. */
  readonly talk: TimelineRow[] = [];
  readonly sources: Map<string, CitedSource> = new Map();
  status = '';
  output: unknown;
  /** Why the last run failed or was rejected. */
  failure: string | undefined;
  cancelRequestedAt: number | undefined;
  endedAt: number | undefined;
  /** The latest time of any entry. Entries are in the order of the log, not always of time. */
  lastAt = 0;
  /** How many tool calls there were, and how many of them failed. */
  readonly calls: { total: number; failed: number } = { total: 0, failed: 0 };
  #blocks = new Map<string, TimelineRow>();
  #calls = new Map<string, TraceSpan>();
  #requests = new Map<string, TraceSpan>();
  #questions = new Map<string, InputRequest>();
  #waits = new Map<string, TraceSpan>();
  #steps = new Map<string, TraceSpan>();
  #runFrom = 0; // index in talk
  #stepFrom = 0;

  get snapshot(): Snapshot | undefined {
    return this.contract.snapshot;
  }

  /** Tool calls without a result. */
  get inFlight(): readonly TraceSpan[] {
    return [...this.#calls.values()];
  }

  /** Folds one entry. `old`: the task had ended before the page connected (see `ContractCheck`). */
  feed(entry: Entry, old = false): void {
    const before = this.snapshot?.current?.messageId;
    this.contract.take(entry, old);
    this.lastAt = Math.max(this.lastAt, entry.at);
    this.#fold(entry, before === this.snapshot?.current?.messageId);
    if (this.#waits.size > (this.snapshot?.pending.length ?? 0)) this.#endWaits(entry.at);
  }

  #fold(entry: Entry, sameTurn: boolean): void {
    switch (entry.type) {
      case 'turn.submitted':
        return this.#turn(entry);
      case 'cancel.requested':
        this.cancelRequestedAt ??= entry.at;
        this.#mark(entry, 'cancel', 'cancel');
        return this.#note(entry, 'Cancel requested', 'warn');
      case 'run.started':
        return this.#start(entry, sameTurn);
      case 'run.finished':
        return this.#finish(entry);
      case 'step.started':
      case 'step.finished':
        if (!entry.path?.length) this.#stepFrom = this.talk.length;
        return;
      case 'step.stored':
        return this.#durableStep(entry);
      case 'run.suspended':
        return this.#note(entry, 'Run suspended: it holds no process until its wait is over');
      case 'retry':
        if (entry.discard && !entry.path?.length) this.#void(this.#stepFrom, entry.at);
        this.#mark(entry, 'retry', `retry ${entry.attempt}`);
        return this.#note(entry, `Model error (${entry.error.code}), retrying`, 'warn');
      case 'text.delta':
      case 'reasoning.delta':
        if (entry.type === 'text.delta' && !entry.path?.length && entry.at === this.#firstTextAt())
          this.#markFirstToken(entry);
        this.tokens.add(entry.at, entry.delta.length);
        this.#block(entry).text += entry.delta;
        return;
      case 'text.end':
      case 'reasoning.end':
        return this.#endBlock(entry);
      case 'tool.started':
        this.#call(entry);
        return;
      case 'tool.called':
        this.#call(entry).args = entry.args;
        return;
      case 'tool.progress':
        return this.#progress(entry);
      case 'tool.completed':
        for (const source of sourcesIn(entry.output)) this.sources.set(source.id, source);
        return this.#endCall(entry, 'answered', entry.output);
      case 'tool.failed':
        this.calls.failed++;
        return this.#endCall(entry, 'failed', entry.error);
      case 'status':
        this.status = entry.message;
        return this.#note(entry, entry.message);
      case 'artifact':
        if (!entry.append) this.#note(entry, `Artifact: ${entry.name ?? entry.artifactId}`);
        return;
      case 'input.required':
        return this.#question(entry);
      case 'frame':
        return this.#frame(entry);
      case 'tool.args':
      case 'custom':
        return;
    }
  }

  #firstTextAt(): number | undefined {
    return this.snapshot?.firstTextAt;
  }

  #markFirstToken(entry: Entry): void {
    if (!this.markers.some(({ kind }) => kind === 'first-token'))
      this.#mark(entry, 'first-token', 'first token');
  }

  #mark({ at, seq }: Entry, kind: TimeMarker['kind'], label: string): void {
    this.markers.push({ kind, at, seq, label });
  }

  #turn({ turn, ...entry }: Of<'turn.submitted'>): void {
    const { seq, at } = entry;
    const by = turn.owner === undefined ? {} : { by: turn.owner };
    if (turn.parts.length > 0 && seq > 1) this.#mark({ ...entry, turn }, 'turn', 'message');
    for (const part of turn.parts)
      this.#say({ kind: 'user', seq, at, text: messageText(part), raw: turn, ...by });
    for (const answer of turn.answers ?? []) {
      const question = this.#questions.get(answer.id);
      const text = answerText(answer, question?.kind === 'question');
      const span = this.#waits.get(answer.id);
      const tone = answer.action === 'accept' ? {} : { tone: 'warn' as const };
      this.#say({
        kind: 'answer',
        seq,
        at,
        text,
        raw: turn,
        ...by,
        ...tone,
        ...(span && { span }),
      });
    }
  }

  #say(row: TimelineRow): void {
    this.rows.push(row);
    this.talk.push(row);
  }

  #question(entry: Of<'input.required'>): void {
    const { seq, at, path, request } = entry;
    const text = request.message ?? `Waiting for you (${request.kind})`;
    this.#questions.set(request.id, request);
    const span = this.spans.open({
      kind: 'wait',
      id: request.id,
      name: text,
      at,
      row: this.rows.length,
      path,
    });
    span.args = request.data;
    this.#waits.set(request.id, span);
    const from = path?.length ? { path } : {};
    this.#say({ kind: 'question', seq, at, text, tone: 'warn', span, raw: entry, ...from });
  }

  /** Closes the waits whose question is no longer pending: answered, or withdrawn. */
  #endWaits(at: number): void {
    const pending = new Set(this.snapshot?.pending.map(({ id }) => id));
    for (const [id, span] of this.#waits)
      if (!pending.has(id)) {
        this.#waits.delete(id);
        this.spans.close(span, at, 'answered', this.rows.length - 1);
      }
  }

  #start(entry: Of<'run.started'>, again: boolean): void {
    if (!again) this.#runFrom = this.talk.length;
    else if (entry.discard) this.#void(this.#runFrom, entry.at);
    // An interrupted run may have open blocks; the same id starts a new block in this run.
    this.#closeBlocks(entry.at);
    this.#stepFrom = this.talk.length;
    this.#closeUnanswered(entry);
    this.endedAt = undefined;
    this.failure = undefined;
    const { model, attempt = 1 } = entry;
    if (attempt > 1) this.#mark(entry, 'attempt', `attempt ${attempt}`);
    const facts = ['Run started', model && `on ${model}`, attempt > 1 && `attempt ${attempt}`];
    this.#note(entry, facts.filter(Boolean).join(', '));
  }

  #finish(entry: Of<'run.finished'>): void {
    const { seq, at, outcome, error } = entry;
    this.#closeBlocks(at);
    this.#closeUnanswered(entry);
    this.status = '';
    this.endedAt = at;
    this.output = entry.output;
    const bad = outcome === 'failed' || outcome === 'rejected';
    const text = `${OUTCOME_TEXTS[outcome]}${error ? `: ${error.message}` : ''}`;
    if (bad) this.failure = text;
    if (this.contract.over) this.#mark(entry, 'end', OUTCOME_TEXTS[outcome].toLowerCase());
    this.rows.push({ kind: 'end', seq, at, text, raw: entry, ...(bad && { tone: 'bad' }) });
  }

  #note(entry: Entry, text: string, tone?: 'warn' | 'bad', span?: TraceSpan): void {
    const { seq, at } = entry;
    const path = 'path' in entry && entry.path ? { path: entry.path } : {};
    const more = { ...path, ...(tone && { tone }), ...(span && { span }) };
    this.rows.push({ kind: 'note', seq, at, text, raw: entry, ...more });
  }

  /** A durable step or wait: one span from its start to its result, over all processes. */
  #durableStep(entry: Of<'step.stored'>): void {
    const { id, kind, status, at, ms } = entry;
    const isOver = status === 'completed' || status === 'failed';
    const known = this.#steps.get(id);
    const span =
      known ??
      this.spans.open({
        kind: kind === 'step' ? 'exchange' : 'pause',
        id,
        name: kind === 'step' ? `step ${id}` : id,
        at: isOver && ms !== undefined ? at - ms : at,
        row: this.rows.length,
      });
    if (isOver) {
      this.#steps.delete(id);
      this.spans.close(span, at, status === 'failed' ? 'failed' : 'answered', this.rows.length);
    } else this.#steps.set(id, span);
    this.#note(entry, stepText(entry), entry.error ? 'warn' : undefined, span);
  }

  #block(entry: BlockEntry): TimelineRow {
    const key = blockKey(entry);
    const known = this.#blocks.get(key);
    if (known) return known;
    const { seq, at, path, id } = entry;
    const kind = entry.type.startsWith('text') ? 'text' : 'reasoning';
    const span = this.spans.open({ kind, id, name: kind, at, row: this.rows.length, path });
    const row: TimelineRow = {
      kind,
      seq,
      at,
      text: '',
      growing: true,
      span,
      ...(path?.length && { path }),
    };
    this.#blocks.set(key, row);
    this.rows.push(row);
    if (kind === 'text' && !path?.length) {
      this.talk.push(row);
      this.status = ''; // the text replaces the status line
    }
    return row;
  }

  #endBlock(entry: Of<'text.end' | 'reasoning.end'>): void {
    const row = this.#block(entry);
    row.text = entry.text;
    this.#blocks.delete(blockKey(entry));
    this.#closeBlock(row, entry.at, 'answered');
  }

  #closeBlocks(at: number): void {
    for (const row of this.#blocks.values()) this.#closeBlock(row, at, 'unanswered');
    this.#blocks.clear();
  }

  #closeBlock(row: TimelineRow, at: number, state: TraceSpan['state']): void {
    row.growing = false;
    if (row.span) this.spans.close(row.span, at, row.void ? 'void' : state, this.rows.length - 1);
  }

  /** Marks the text from here on as discarded. The page shows it struck through. */
  #void(from: number, at: number): void {
    for (const row of this.talk.slice(from))
      if (row.kind === 'text') {
        row.void = true;
        if (row.span?.endedAt !== undefined) row.span.state = 'void';
      }
    for (const [key, row] of this.#blocks)
      if (row.void) {
        this.#closeBlock(row, at, 'void');
        this.#blocks.delete(key);
      }
  }

  #call(entry: Of<'tool.started' | 'tool.called'>): TraceSpan {
    const { callId: id, seq, at, path } = entry;
    const known = this.#calls.get(id);
    if (known) return known;
    const name = displayToolName(entry.name);
    const span = this.spans.open({ kind: 'call', id, name, at, row: this.rows.length, path });
    this.calls.total++;
    this.#calls.set(id, span);
    this.rows.push({ kind: 'call', seq, at, text: name, span, raw: entry, ...(path && { path }) });
    return span;
  }

  #progress({ callId, message, progress, total }: Of<'tool.progress'>): void {
    const span = this.#calls.get(callId);
    if (span)
      span.progress = {
        ...(message !== undefined && { message }),
        ...(progress !== undefined && { done: progress }),
        ...(total !== undefined && { total }),
      };
  }

  #endCall(
    entry: Of<'tool.completed' | 'tool.failed'>,
    state: 'answered' | 'failed',
    output: unknown,
  ): void {
    const span = this.#calls.get(entry.callId);
    if (!span) return;
    const { seq, at, path } = entry;
    this.#calls.delete(entry.callId);
    span.output = output;
    this.spans.close(span, at, span.state === 'lost' ? 'lost' : state, this.rows.length);
    this.rows.push({
      kind: 'result',
      seq,
      at,
      text: `${shortName(span.name)} ${state} in ${duration(at - span.startedAt)}`,
      span,
      raw: entry,
      ...(path && { path }),
      ...(state === 'failed' && { tone: 'bad' }),
    });
  }

  #frame(entry: Of<'frame'>): void {
    const { frame, callId, seq, at } = entry;
    const { kind, id, label, failed, isToolCall } = readFrame(frame);
    const call = callId === undefined ? undefined : this.#calls.get(callId);
    const request = id === undefined || kind === 'request' ? undefined : this.#requests.get(id);
    if (call) call.frames.push(frame);
    if (request && request !== call) request.frames.push(frame);
    if (kind === 'request' && id !== undefined && call && isToolCall) {
      this.#requests.set(id, call);
      return;
    }
    if (request) {
      if (frame.lost) request.state = 'lost';
      if (kind !== 'response') return;
      this.#requests.delete(id as string);
      const state = frame.lost ? 'lost' : failed ? 'failed' : 'answered';
      if (request.kind === 'exchange') this.spans.close(request, at, state, this.rows.length - 1);
      return;
    }
    const text = `${frame.direction === 'in' ? '←' : '→'} ${label}`;
    const row = { kind: 'control', seq, at, text, raw: entry } as const;
    const bad = frame.lost && { tone: 'bad' as const };
    if (kind !== 'request' || id === undefined) {
      this.rows.push({ ...row, ...bad });
      return;
    }
    const span = this.spans.open({ kind: 'exchange', id, name: label, at, row: this.rows.length });
    span.frames.push(frame);
    this.#requests.set(id, span);
    this.rows.push({ ...row, span, ...bad });
  }

  /** Closes the control requests that a run left without a response when it ended or restarted. */
  #closeUnanswered({ at }: Entry): void {
    for (const span of this.#requests.values())
      if (span.kind === 'exchange') this.spans.close(span, at, 'unanswered', this.rows.length);
    this.#requests.clear();
  }
}

const blockKey = ({ id, type, path }: BlockEntry): string =>
  JSON.stringify([type.split('.')[0], id, path ?? []]);
