import type { Entry, Frame, Part, Snapshot } from '../../../src/event/types.ts';
import { ContractCheck } from './contract-check.ts';
import { readFrame, shortName, displayToolName } from './frame-facts.ts';
import { sourcesIn, type CitedSource } from './cited-sources.ts';

/** One row of the timeline. A block of text is one row, which grows with each delta. */
export interface TimelineRow {
  readonly kind: 'user' | 'text' | 'reasoning' | 'note' | 'call' | 'result' | 'control' | 'end';
  readonly seq: number;
  readonly at: number;
  text: string;
  /** The block is open: more deltas may follow. */
  growing?: boolean;
  readonly tone?: 'warn' | 'bad';
  /** A retry discarded it. */
  void?: true;
  /** The path of the sub-agent that it comes from. */
  readonly path?: readonly string[];
  /** The call or the control request that this row begins or ends. */
  readonly bar?: Bar;
  /** The entry in the log; a block of deltas has no single entry. */
  readonly raw?: unknown;
}

/** A tool call or another control request, from its first row to the row of its result. */
export interface Bar {
  readonly kind: 'call' | 'exchange';
  readonly id: string;
  readonly name: string;
  readonly from: number; // row
  to?: number; // row
  readonly startedAt: number;
  endedAt?: number;
  /** `unanswered`: its run ended before the result. `lost`: the response could not be written. */
  state: 'open' | 'answered' | 'failed' | 'unanswered' | 'lost';
  args?: unknown;
  output?: unknown;
  progress?: { readonly message?: string; readonly done?: number; readonly total?: number };
  /** The column of the bar among bars that overlap; 0 is the outermost. */
  readonly track: number;
  readonly frames: Frame[];
}

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;

/**
 * What the page shows of a task: a fold of its entries without side effects. An entry costs O(1),
 * and O(open calls) where it opens or closes a bar.
 */
export class TaskView {
  readonly contract: ContractCheck = new ContractCheck();
  readonly rows: TimelineRow[] = [];
  readonly bars: Bar[] = [];
  /** User messages and text of the agent in order, without sub-agents. */
  readonly talk: TimelineRow[] = [];
  readonly sources: Map<string, CitedSource> = new Map();
  /** The largest number of bars that overlapped. */
  tracks = 0;
  status = '';
  output: unknown;
  /** Why the last run failed or was rejected. */
  failure: string | undefined;
  cancelRequestedAt: number | undefined;
  endedAt: number | undefined;
  #blocks = new Map<string, TimelineRow>();
  #calls = new Map<string, Bar>();
  #requests = new Map<string, Bar>();
  #taken = new Set<number>();
  #runFrom = 0; // index in talk
  #stepFrom = 0;

  get snapshot(): Snapshot | undefined {
    return this.contract.snapshot;
  }

  /** Tool calls without a result. */
  get inFlight(): readonly Bar[] {
    return [...this.#calls.values()];
  }

  /** Folds one entry. `old`: the task had ended before the page connected (see `ContractCheck`). */
  feed(entry: Entry, old = false): void {
    const before = this.snapshot?.current?.messageId;
    this.contract.take(entry, old);
    switch (entry.type) {
      case 'turn.submitted':
        return this.#turn(entry);
      case 'cancel.requested':
        this.cancelRequestedAt ??= entry.at;
        return this.#note(entry, 'Cancel requested', 'warn');
      case 'run.started':
        return this.#start(entry, before === this.snapshot?.current?.messageId);
      case 'run.finished':
        return this.#finish(entry);
      case 'step.started':
      case 'step.finished':
        if (!entry.path?.length) this.#stepFrom = this.talk.length;
        return;
      case 'step.stored':
        return this.#note(entry, stepText(entry), entry.error ? 'warn' : undefined);
      case 'run.suspended':
        return this.#note(entry, 'Run suspended: it goes on when its wait is over');
      case 'retry':
        if (entry.discard && !entry.path?.length) this.#void(this.#stepFrom);
        return this.#note(entry, `Model error (${entry.error.code}), retrying`, 'warn');
      case 'text.delta':
      case 'reasoning.delta':
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
        return this.#endCall(entry, 'failed', entry.error);
      case 'status':
        this.status = entry.message;
        return this.#note(entry, entry.message);
      case 'artifact':
        if (!entry.append) this.#note(entry, `Artifact: ${entry.name ?? entry.artifactId}`);
        return;
      case 'input.required': {
        const { message, kind } = entry.request;
        return this.#note(entry, `Waiting for you: ${message ?? kind}`, 'warn');
      }
      case 'frame':
        return this.#frame(entry);
      case 'tool.args':
      case 'custom':
        return;
    }
  }

  #turn({ turn, ...entry }: Of<'turn.submitted'>): void {
    const texts = turn.parts.map(partText);
    const answered = (turn.answers ?? []).map(({ id, action }) => `${ACTIONS[action]} (${id})`);
    for (const text of [...texts, ...answered]) {
      const row: TimelineRow = { kind: 'user', seq: entry.seq, at: entry.at, text, raw: turn };
      this.rows.push(row);
      this.talk.push(row);
    }
  }

  #start(entry: Of<'run.started'>, again: boolean): void {
    if (!again) this.#runFrom = this.talk.length;
    else if (entry.discard) this.#void(this.#runFrom);
    // An interrupted run may have open blocks; the same id starts a new block in this run.
    this.#blocks.clear();
    this.#stepFrom = this.talk.length;
    this.#closeUnanswered(entry);
    this.endedAt = undefined;
    this.failure = undefined;
    const { model, attempt = 1 } = entry;
    const facts = ['Run started', model && `on ${model}`, attempt > 1 && `attempt ${attempt}`];
    this.#note(entry, facts.filter(Boolean).join(', '));
  }

  #finish(entry: Of<'run.finished'>): void {
    const { seq, at, outcome, error } = entry;
    this.#closeUnanswered(entry);
    this.status = '';
    this.endedAt = at;
    this.output = entry.output;
    const bad = outcome === 'failed' || outcome === 'rejected';
    const text = `${OUTCOMES[outcome]}${error ? `: ${error.message}` : ''}`;
    if (bad) this.failure = text;
    this.rows.push({ kind: 'end', seq, at, text, raw: entry, ...(bad && { tone: 'bad' }) });
  }

  #note(entry: Entry, text: string, tone?: 'warn' | 'bad'): void {
    const { seq, at } = entry;
    const path = 'path' in entry && entry.path ? { path: entry.path } : {};
    this.rows.push({ kind: 'note', seq, at, text, raw: entry, ...path, ...(tone && { tone }) });
  }

  #block(entry: Of<'text.delta' | 'reasoning.delta' | 'text.end' | 'reasoning.end'>): TimelineRow {
    const key = blockKey(entry);
    const known = this.#blocks.get(key);
    if (known) return known;
    const { seq, at, path } = entry;
    const kind = entry.type.startsWith('text') ? 'text' : 'reasoning';
    const row: TimelineRow = {
      kind,
      seq,
      at,
      text: '',
      growing: true,
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
    row.growing = false;
    this.#blocks.delete(blockKey(entry));
  }

  /** Marks the text from here on as discarded. The timeline shows it struck through. */
  #void(from: number): void {
    for (const row of this.talk.slice(from)) if (row.kind === 'text') row.void = true;
    for (const [key, row] of this.#blocks) if (row.void) this.#blocks.delete(key);
  }

  #call(entry: Of<'tool.started' | 'tool.called'>): Bar {
    const { callId, name, seq, at, path } = entry;
    const known = this.#calls.get(callId);
    if (known) return known;
    const bar = this.#open('call', callId, displayToolName(name), at);
    this.#calls.set(callId, bar);
    this.rows.push({ kind: 'call', seq, at, text: bar.name, bar, ...(path && { path }) });
    return bar;
  }

  #progress({ callId, message, progress, total }: Of<'tool.progress'>): void {
    const bar = this.#calls.get(callId);
    if (bar)
      bar.progress = {
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
    const bar = this.#calls.get(entry.callId);
    if (!bar) return;
    const { seq, at, path } = entry;
    this.#calls.delete(entry.callId);
    bar.output = output;
    this.#close(bar, at, bar.state === 'lost' ? 'lost' : state, this.rows.length);
    this.rows.push({
      kind: 'result',
      seq,
      at,
      text: `${state} in ${duration(at - bar.startedAt)}: ${shortName(bar.name)}`,
      bar,
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
      if (request.kind === 'exchange')
        this.#close(
          request,
          at,
          frame.lost ? 'lost' : failed ? 'failed' : 'answered',
          this.rows.length - 1,
        );
      return;
    }
    const text = `${frame.direction === 'in' ? '←' : '→'} ${label}`;
    const row = { kind: 'control', seq, at, text, raw: frame } as const;
    const bad = frame.lost && { tone: 'bad' as const };
    if (kind !== 'request' || id === undefined) {
      this.rows.push({ ...row, ...bad });
      return;
    }
    const bar = this.#open('exchange', id, label, at);
    bar.frames.push(frame);
    this.#requests.set(id, bar);
    this.rows.push({ ...row, bar, ...bad });
  }

  /** Closes the control requests that a run left without a response when it ended or restarted. */
  #closeUnanswered({ at }: Entry): void {
    for (const bar of this.#requests.values())
      if (bar.kind === 'exchange') this.#close(bar, at, 'unanswered', this.rows.length);
    this.#requests.clear();
  }

  #open(kind: Bar['kind'], id: string, name: string, at: number): Bar {
    let track = 0;
    while (this.#taken.has(track)) track++;
    this.#taken.add(track);
    this.tracks = Math.max(this.tracks, track + 1);
    const bar: Bar = {
      kind,
      id,
      name,
      from: this.rows.length,
      startedAt: at,
      state: 'open',
      track,
      frames: [],
    };
    this.bars.push(bar);
    return bar;
  }

  #close(bar: Bar, at: number, state: Bar['state'], to: number): void {
    bar.endedAt = at;
    bar.state = state;
    bar.to = Math.max(bar.from, to);
    this.#taken.delete(bar.track);
  }
}

const partText = (part: Part): string => {
  if ('text' in part) return part.text;
  return 'data' in part ? JSON.stringify(part.data, null, 2) : (part.filename ?? 'file');
};

const ACTIONS = { accept: 'Approved', decline: 'Rejected', cancel: 'Dismissed' } as const;

const OUTCOMES = {
  completed: 'Completed',
  failed: 'Failed',
  canceled: 'Canceled',
  rejected: 'Rejected',
  'input-required': 'Waiting for your answer',
} as const;

const blockKey = ({
  id,
  type,
  path,
}: Of<'text.delta' | 'reasoning.delta' | 'text.end' | 'reasoning.end'>): string =>
  JSON.stringify([type.split('.')[0], id, path ?? []]);

/** Formats a duration: `8 ms`, `1.2 s`, `3 min`, `2 h`, `5 d`. */
export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 1000) return `${Math.round(span)} ms`;
  if (span < 60_000) return `${(span / 1000).toFixed(span < 10_000 ? 1 : 0)} s`;
  if (span < 3_600_000) return `${Math.round(span / 60_000)} min`;
  return span < 172_800_000
    ? `${Math.round(span / 3_600_000)} h`
    : `${Math.round(span / 86_400_000)} d`;
}

/** One line about a durable step. */
function stepText({ id, kind, status, attempt = 1, ms, until, error }: Of<'step.stored'>): string {
  const name = kind === 'step' ? `Step ${id}` : kind === 'sleep' ? `Sleep ${id}` : `Event ${id}`;
  const at = until === undefined ? '' : new Date(until).toLocaleTimeString();
  switch (status) {
    case 'started':
      return `${name}: running`;
    case 'waiting':
      return kind === 'sleep' ? `${name}: until ${at}` : `${name}: waiting`;
    case 'retrying':
      return `${name}: attempt ${attempt} failed (${error?.code ?? 'unknown'}), next at ${at}`;
    case 'completed':
      return `${name}: done${ms === undefined ? '' : ` in ${ms} ms`}`;
    case 'failed':
      return `${name}: failed (${error?.code ?? 'unknown'})`;
  }
}
