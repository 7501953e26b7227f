import { advance } from '../../src/event/advance.ts';
import { isFinal } from '../../src/event/contract.ts';
import type { Entry, Frame, Outcome, Snapshot } from '../../src/event/types.ts';

/** One row of the message lane. Text grows in place: a block is one row, however many deltas. */
export type Row =
  | { readonly kind: 'user'; readonly seq: number; readonly at: number; readonly text: string }
  | {
      readonly kind: 'text' | 'reasoning';
      readonly seq: number;
      readonly at: number;
      readonly id: string;
      text: string;
      void?: true;
    }
  | {
      readonly kind: 'note';
      readonly seq: number;
      readonly at: number;
      readonly text: string;
      readonly tone?: 'warn' | 'bad';
    }
  | {
      readonly kind: 'control';
      readonly seq: number;
      readonly at: number;
      readonly text: string;
      readonly frame: Frame;
    }
  | { readonly kind: 'call'; readonly seq: number; readonly at: number; readonly call: CallBar }
  | {
      readonly kind: 'end';
      readonly seq: number;
      readonly at: number;
      readonly outcome: Outcome;
      readonly text: string;
    };

/** A tool call as a bar of the control lane, from its first word to its answer. */
export interface CallBar {
  readonly callId: string;
  readonly name: string;
  args?: unknown;
  readonly from: number; // row
  readonly startedAt: number;
  to?: number; // row
  endedAt?: number;
  outcome?: 'completed' | 'failed';
  output?: unknown;
  /** Which of the bars side by side. */
  readonly track: number;
  readonly frames: Frame[];
}

export interface Rule {
  readonly name: string;
  readonly state: 'kept' | 'broken' | 'open';
  readonly detail?: string;
}

/** What the page shows of a task: a fold of its entries, kept up as they come, O(1) each. */
export class TaskView {
  snapshot: Snapshot | undefined;
  readonly rows: Row[] = [];
  readonly bars: CallBar[] = [];
  #blocks = new Map<string, Row & { text: string }>();
  #open = new Map<string, CallBar>();
  #broken: string | undefined;
  #gap: string | undefined;
  #finals = 0;
  #first: string | undefined;

  feed(entry: Entry): void {
    this.#check(entry);
    const { seq, at } = entry;
    switch (entry.type) {
      case 'turn.submitted':
        for (const part of entry.turn.parts) {
          this.rows.push({
            kind: 'user',
            seq,
            at,
            text: 'text' in part ? part.text : JSON.stringify(part),
          });
        }
        for (const answer of entry.turn.answers ?? []) {
          this.rows.push({ kind: 'user', seq, at, text: `${answer.action}: ${answer.id}` });
        }
        break;
      case 'cancel.requested':
        this.#note(entry, 'Cancel requested', 'warn');
        break;
      case 'run.started':
        if (entry.discard) this.#void();
        this.#note(
          entry,
          `Run started${entry.model ? ` on ${entry.model}` : ''}${(entry.attempt ?? 1) > 1 ? `, attempt ${entry.attempt}` : ''}`,
        );
        break;
      case 'retry':
        if (entry.discard) this.#void();
        this.#note(entry, `Model call failed (${entry.error.code}), trying again`, 'warn');
        break;
      case 'text.delta':
        this.#block('text', entry.id, entry).text += entry.delta;
        break;
      case 'reasoning.delta':
        this.#block('reasoning', entry.id, entry).text += entry.delta;
        break;
      case 'text.end':
        this.#block('text', entry.id, entry).text = entry.text;
        this.#blocks.delete(entry.id);
        break;
      case 'reasoning.end':
        this.#block('reasoning', entry.id, entry).text = entry.text;
        this.#blocks.delete(entry.id);
        break;
      case 'tool.started':
        this.#bar(entry.callId, entry.name, entry);
        break;
      case 'tool.called':
        this.#bar(entry.callId, entry.name, entry).args = entry.args;
        break;
      case 'tool.completed':
        this.#closeBar(entry.callId, entry, 'completed', entry.output);
        break;
      case 'tool.failed':
        this.#closeBar(entry.callId, entry, 'failed', entry.error);
        break;
      case 'tool.progress':
        if (entry.message) this.#note(entry, entry.message);
        break;
      case 'status':
        this.#note(entry, entry.message);
        break;
      case 'artifact':
        if (!entry.append) this.#note(entry, `Artifact ${entry.name ?? entry.artifactId}`);
        break;
      case 'input.required':
        this.#note(
          entry,
          `Waiting for you: ${entry.request.message ?? entry.request.kind}`,
          'warn',
        );
        break;
      case 'frame': {
        const bar = entry.callId === undefined ? undefined : this.#open.get(entry.callId);
        if (bar) bar.frames.push(entry.frame);
        else
          this.rows.push({
            kind: 'control',
            seq,
            at,
            text: frameLabel(entry.frame),
            frame: entry.frame,
          });
        break;
      }
      case 'run.finished':
        this.rows.push({
          kind: 'end',
          seq,
          at,
          outcome: entry.outcome,
          text: entry.error?.message ?? '',
        });
        break;
      case 'tool.args':
      case 'step.started':
      case 'step.finished':
      case 'custom':
        break;
    }
  }

  /** The text of the answer so far, with what retries voided left out. */
  get answer(): string {
    return this.rows
      .filter((row): row is Row & { kind: 'text' } => row.kind === 'text' && !row.void)
      .map((row) => row.text)
      .join('\n\n');
  }

  /** The promise of the stream, rule by rule. */
  get rules(): readonly Rule[] {
    const over = this.snapshot !== undefined && isFinal(this.snapshot.state);
    const waiting = over ? undefined : 'the task is still going on';
    return [
      {
        name: 'First event is the submitted task',
        state:
          this.#first === undefined ? 'open' : this.#first === 'turn.submitted' ? 'kept' : 'broken',
      },
      {
        name: 'Ids without a gap',
        state: this.#gap ? 'broken' : 'kept',
        ...(this.#gap && { detail: this.#gap }),
      },
      {
        name: 'Every entry lawful',
        state: this.#broken ? 'broken' : 'kept',
        ...(this.#broken && { detail: this.#broken }),
      },
      {
        name: 'Every tool call answered',
        state: this.#open.size === 0 ? 'kept' : over ? 'broken' : 'open',
        ...(this.#open.size > 0 && {
          detail: [...this.#open.values()].map(({ name }) => name).join(', '),
        }),
      },
      {
        name: 'Exactly one final event',
        state: this.#finals > 1 ? 'broken' : over ? 'kept' : 'open',
        ...(waiting && { detail: waiting }),
      },
    ];
  }

  #check(entry: Entry): void {
    this.#first ??= entry.type;
    const expected = (this.snapshot?.seq ?? 0) + 1;
    if (entry.seq !== expected) this.#gap ??= `after ${expected - 1} came ${entry.seq}`;
    try {
      this.snapshot = advance(this.snapshot, entry);
      if (isFinal(this.snapshot.state)) this.#finals++;
    } catch (error) {
      this.#broken ??= error instanceof Error ? error.message : String(error);
    }
  }

  #note({ seq, at }: Entry, text: string, tone?: 'warn' | 'bad'): void {
    this.rows.push({ kind: 'note', seq, at, text, ...(tone && { tone }) });
  }

  #block(kind: 'text' | 'reasoning', id: string, { seq, at }: Entry): { text: string } {
    const known = this.#blocks.get(id);
    if (known) return known;
    const row: Row & { text: string } = { kind, seq, at, id, text: '' };
    this.#blocks.set(id, row);
    this.rows.push(row);
    return row;
  }

  /** Text before this point no longer counts; it stays visible, struck through. */
  #void(): void {
    this.#blocks.clear();
    for (const row of this.rows) if (row.kind === 'text') row.void = true;
  }

  #bar(callId: string, name: string, { seq, at }: Entry): CallBar {
    const known = this.#open.get(callId);
    if (known) return known;
    const taken = new Set([...this.#open.values()].map(({ track }) => track));
    let track = 0;
    while (taken.has(track)) track++;
    const bar: CallBar = { callId, name, from: this.rows.length, startedAt: at, track, frames: [] };
    this.#open.set(callId, bar);
    this.bars.push(bar);
    this.rows.push({ kind: 'call', seq, at, call: bar });
    return bar;
  }

  #closeBar(
    callId: string,
    { seq, at }: Entry,
    outcome: 'completed' | 'failed',
    output: unknown,
  ): void {
    const bar = this.#open.get(callId);
    if (!bar) return;
    this.#open.delete(callId);
    Object.assign(bar, { to: this.rows.length, endedAt: at, outcome, output });
    this.rows.push({
      kind: 'note',
      seq,
      at,
      text: `${bar.name} ${outcome === 'failed' ? 'failed' : 'answered'} after ${at - bar.startedAt} ms`,
      ...(outcome === 'failed' && { tone: 'bad' as const }),
    });
  }
}

/** A control frame in a few words. */
function frameLabel({ data, direction, lost }: Frame): string {
  const arrow = direction === 'in' ? '←' : '→';
  const request = data['request'] as
    | { subtype?: string; message?: { method?: string } }
    | undefined;
  const response = data['response'] as { subtype?: string; request_id?: string } | undefined;
  const what = request
    ? `${request.subtype ?? '?'}${request.message?.method ? ` ${request.message.method}` : ''}`
    : `answer ${response?.subtype ?? ''}`;
  return `${arrow} ${what}${lost ? ' (lost)' : ''}`;
}
