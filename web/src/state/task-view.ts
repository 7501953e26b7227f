import type { Entry, Frame, Part, Snapshot } from '../../../src/event/types.ts';
import { ContractCheck } from './contract-check.ts';
import { readFrame, shortName, displayToolName } from './frame-facts.ts';
import { sourcesIn, type CitedSource } from './cited-sources.ts';

/** One line of the timeline. Text grows in place: a block is one row, however many deltas. */
export interface TimelineRow {
  readonly kind: 'user' | 'text' | 'reasoning' | 'note' | 'call' | 'result' | 'control' | 'end';
  readonly seq: number;
  readonly at: number;
  text: string;
  /** More of it may come. */
  growing?: boolean;
  readonly tone?: 'warn' | 'bad';
  /** A retry took it back. */
  void?: true;
  /** Of a sub-agent. */
  readonly path?: readonly string[];
  /** The call or the control request that this row begins or ends. */
  readonly bar?: Bar;
  /** What stands in the log; a growing block has none. */
  readonly raw?: unknown;
}

/** A tool call or another control request, from its first word to its answer. */
export interface Bar {
  readonly kind: 'call' | 'exchange';
  readonly id: string;
  readonly name: string;
  readonly from: number; // row
  to?: number; // row
  readonly startedAt: number;
  endedAt?: number;
  /** `left`: its run ended without an answer. `lost`: the answer could not be written. */
  state: 'open' | 'answered' | 'failed' | 'taken back' | 'left' | 'lost';
  args?: unknown;
  output?: unknown;
  progress?: { readonly message?: string; readonly done?: number; readonly total?: number };
  /** Which of the bars side by side. */
  readonly track: number;
  readonly frames: Frame[];
}

type Of<Type extends Entry['type']> = Extract<Entry, { readonly type: Type }>;

/** What the page shows of a task: a fold of its entries, pure, O(1) each but for open calls. */
export class TaskView {
  readonly contract: ContractCheck = new ContractCheck();
  readonly rows: TimelineRow[] = [];
  readonly bars: Bar[] = [];
  /** What was asked and answered, without sub-agents, in order. */
  readonly talk: TimelineRow[] = [];
  readonly sources: Map<string, CitedSource> = new Map();
  /** How many bars stood side by side at most. */
  tracks = 0;
  status = '';
  output: unknown;
  /** Why the run did not do what it was asked. */
  failure: string | undefined;
  cancelRequestedAt: number | undefined;
  endedAt: number | undefined;
  #blocks = new Map<string, TimelineRow>();
  #calls = new Map<string, Bar>();
  #asked = new Map<string, Bar>();
  #taken = new Set<number>();
  #runFrom = 0; // index in talk
  #stepFrom = 0;

  get snapshot(): Snapshot | undefined {
    return this.contract.snapshot;
  }

  /** Tool calls without an answer yet. */
  get inFlight(): readonly Bar[] {
    return [...this.#calls.values()];
  }

  /** `old`: the task had ended before we came (see `ContractCheck`). */
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
      case 'retry':
        if (entry.discard && !entry.path?.length) this.#void(this.#stepFrom);
        return this.#note(entry, `The model failed (${entry.error.code}), again`, 'warn');
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
        return this.#answered(entry, 'answered', entry.output);
      case 'tool.failed':
        return this.#answered(entry, 'failed', entry.error);
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
    const said = turn.parts.map(wordsOfPart);
    const answered = (turn.answers ?? []).map(({ id, action }) => `${ACTIONS[action]} (${id})`);
    for (const text of [...said, ...answered]) {
      const row: TimelineRow = { kind: 'user', seq: entry.seq, at: entry.at, text, raw: turn };
      this.rows.push(row);
      this.talk.push(row);
    }
  }

  #start(entry: Of<'run.started'>, again: boolean): void {
    if (!again) this.#runFrom = this.talk.length;
    else if (entry.discard) this.#void(this.#runFrom);
    this.#blocks.clear(); // a run cut off may have left some open; the same id is a new block now
    this.#stepFrom = this.talk.length;
    this.#leave(entry);
    this.endedAt = undefined;
    this.failure = undefined;
    const { model, attempt = 1 } = entry;
    const words = ['Run started', model && `on ${model}`, attempt > 1 && `attempt ${attempt}`];
    this.#note(entry, words.filter(Boolean).join(', '));
  }

  #finish(entry: Of<'run.finished'>): void {
    const { seq, at, outcome, error } = entry;
    this.#leave(entry);
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
      this.status = ''; // what it says now is what it does now
    }
    return row;
  }

  #endBlock(entry: Of<'text.end' | 'reasoning.end'>): void {
    const row = this.#block(entry);
    row.text = entry.text;
    row.growing = false;
    this.#blocks.delete(blockKey(entry));
  }

  /** Text from here on no longer counts; it stays visible, struck through. */
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

  #answered(
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
    const asked = id === undefined || kind === 'request' ? undefined : this.#asked.get(id);
    if (call) call.frames.push(frame);
    if (asked && asked !== call) asked.frames.push(frame);
    if (kind === 'request' && id !== undefined && call && isToolCall) {
      this.#asked.set(id, call);
      return;
    }
    if (asked) {
      if (frame.lost) asked.state = 'lost';
      if (kind !== 'answer') return;
      this.#asked.delete(id as string);
      if (asked.kind === 'exchange')
        this.#close(
          asked,
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
    this.#asked.set(id, bar);
    this.rows.push({ ...row, bar, ...bad });
  }

  /** What is still asked when a run ends, or starts again, is not answered any more. */
  #leave({ at }: Entry): void {
    for (const bar of this.#asked.values())
      if (bar.kind === 'exchange') this.#close(bar, at, 'left', this.rows.length);
    this.#asked.clear();
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

const wordsOfPart = (part: Part): string => {
  if ('text' in part) return part.text;
  return 'data' in part ? JSON.stringify(part.data, null, 2) : (part.filename ?? 'a file');
};

const ACTIONS = { accept: 'Approved', decline: 'Rejected', cancel: 'Dismissed' } as const;

const OUTCOMES = {
  completed: 'Completed',
  failed: 'Failed',
  canceled: 'Canceled',
  rejected: 'Rejected',
  'input-required': 'Sleeps until you answer',
} as const;

const blockKey = ({
  id,
  type,
  path,
}: Of<'text.delta' | 'reasoning.delta' | 'text.end' | 'reasoning.end'>): string =>
  JSON.stringify([type.split('.')[0], id, path ?? []]);

/** A time span for people: `8 ms`, `1.2 s`, `3 min`. */
export function duration(ms: number): string {
  const span = Math.max(0, ms);
  if (span < 1000) return `${Math.round(span)} ms`;
  if (span < 60_000) return `${(span / 1000).toFixed(span < 10_000 ? 1 : 0)} s`;
  if (span < 3_600_000) return `${Math.round(span / 60_000)} min`;
  return span < 172_800_000
    ? `${Math.round(span / 3_600_000)} h`
    : `${Math.round(span / 86_400_000)} d`;
}
