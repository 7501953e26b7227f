import { advance } from '../../../src/event/fold/advance.ts';
import { isFinal } from '../../../src/event/fold/entry-rules.ts';
import type { Entry, Snapshot } from '../../../src/event/types.ts';
import { displayToolName } from './frame-facts.ts';

/** One rule of the stream contract, with its result so far. */
export interface ContractRule {
  readonly name: string;
  readonly state: 'kept' | 'broken' | 'open';
  /** What is broken, or what is still expected. */
  readonly detail?: string;
  /** What proves the result: facts of the log, each with the entry that it is about. */
  readonly evidence: readonly Evidence[];
}

/** The results of a rule, for screen readers. */
export const MARK_TEXTS = { kept: 'kept', broken: 'broken', open: 'still open' } as const;

/** A fact of the log, and the entry that shows it. */
export interface Evidence {
  readonly text: string;
  readonly seq?: number;
}

/** How many results are listed one by one as evidence. */
const LISTED_RESULTS = 8;

/**
 * Folds the entries of a task and checks the stream contract. A broken rule stays broken, with its
 * first reason. The fold continues after an invalid entry, so that the page shows what it can.
 */
export class ContractCheck {
  snapshot: Snapshot | undefined;
  #seq = 0;
  #first: Entry['type'] | undefined;
  #gap: string | undefined;
  #pruned = 0;
  #invalid: string | undefined;
  #open = new Map<string, string>();
  #repeatedAnswer: string | undefined;
  #lost: string | undefined;
  #finalAt: number | undefined;
  #late: string | undefined;
  #closed = false;
  #count = 0;
  #started = new Map<string, number>();
  #answered = 0;
  #results: Evidence[] = [];
  #frames = 0;

  /**
   * `old`: the task had ended before the page connected. The server may have pruned its deltas, so
   * a gap in the ids breaks no rule.
   */
  take(entry: Entry, old: boolean): void {
    this.#first ??= entry.type;
    this.#count++;
    this.#number(entry.seq, old);
    if (this.#finalAt !== undefined)
      this.#late ??= `entry ${entry.seq} (${entry.type}) follows the final entry ${this.#finalAt}`;
    this.#calls(entry);
    try {
      const before = this.snapshot;
      this.snapshot = advance(
        before && before.seq !== entry.seq - 1 ? { ...before, seq: entry.seq - 1 } : before,
        entry,
      );
      if (isFinal(this.snapshot.state)) this.#finalAt ??= entry.seq;
    } catch (error) {
      if (entry.type === 'run.finished' && entry.outcome !== 'input-required')
        this.#finalAt ??= entry.seq;
      this.#invalid ??= error instanceof Error ? error.message : String(error);
    }
  }

  /** Call this when the server has ended the stream. */
  close(): void {
    this.#closed = true;
  }

  get seq(): number {
    return this.#seq;
  }

  /** How many entries this page has got. */
  get count(): number {
    return this.#count;
  }

  get over(): boolean {
    return this.#finalAt !== undefined;
  }

  get rules(): readonly ContractRule[] {
    const { over } = this;
    const open = [...this.#open];
    const names = open.map(([, name]) => displayToolName(name)).join(', ');
    const exactly = open.map(([callId, name]) => `${name} (${callId})`).join(', ');
    const first = this.#first;
    const calls = this.#answered + open.length;
    return [
      rule(
        'First event is the submitted task',
        first === undefined || first === 'turn.submitted'
          ? undefined
          : `the first event is ${first}`,
        first === undefined ? 'no event yet' : undefined,
        first === undefined ? [] : [{ text: `entry 1 is ${first}`, seq: 1 }],
      ),
      {
        ...rule('Ids without a gap', this.#gap, undefined, [
          {
            text: `${this.#count} entries received, the last is number ${this.#seq}`,
            seq: this.#seq,
          },
        ]),
        ...(this.#pruned > 0 && {
          detail: `${this.#pruned} deltas were pruned after the end; the final text of each block is complete`,
        }),
      },
      rule('All events valid', this.#invalid, undefined, [
        { text: `${this.#count} entries folded by the rules of the task log` },
      ]),
      rule(
        'Every tool call answered once',
        this.#repeatedAnswer ?? (over && exactly ? `never answered: ${exactly}` : undefined),
        names && `in flight: ${names}`,
        [
          { text: `${calls} calls, ${this.#answered} results` },
          ...this.#results,
          ...(this.#answered > LISTED_RESULTS
            ? [{ text: `and ${this.#answered - LISTED_RESULTS} more` }]
            : []),
        ],
      ),
      rule('All responses delivered', this.#lost, undefined, [
        { text: `${this.#frames} frames on the pipe, ${this.#lost ? 'some' : 'none'} undelivered` },
      ]),
      rule(
        'Exactly one final event, at the end',
        this.#late ??
          (this.#closed && !over ? 'the stream ended without a final event' : undefined),
        over ? undefined : 'the task continues',
        this.#finalAt === undefined
          ? []
          : [{ text: `entry ${this.#finalAt} is final; nothing follows it`, seq: this.#finalAt }],
      ),
    ];
  }

  #number(seq: number, old: boolean): void {
    const expected = this.#seq + 1;
    if (seq > expected && old && this.#seq > 0) this.#pruned += seq - expected;
    else if (seq !== expected)
      this.#gap ??=
        seq > expected
          ? `entry ${seq} follows entry ${expected - 1}`
          : `entry ${seq} was repeated after entry ${this.#seq}`;
    this.#seq = Math.max(this.#seq, seq);
  }

  #calls(entry: Entry): void {
    if (entry.type === 'tool.started' || entry.type === 'tool.called') {
      if (!this.#open.has(entry.callId)) this.#started.set(entry.callId, entry.seq);
      this.#open.set(entry.callId, entry.name);
    }
    if (entry.type === 'frame') this.#frames++;
    if (entry.type === 'tool.completed' || entry.type === 'tool.failed') {
      if (this.#open.delete(entry.callId)) this.#answer(entry);
      else
        this.#repeatedAnswer ??= `${entry.name} (${entry.callId}) was answered twice or never called`;
    }
    if (entry.type === 'frame' && entry.frame.lost)
      this.#lost ??= `the frame of entry ${entry.seq} could not be written, so the peer did not get it`;
  }

  #answer({
    callId,
    name,
    seq,
  }: Extract<Entry, { readonly type: 'tool.completed' | 'tool.failed' }>): void {
    this.#answered++;
    if (this.#results.length < LISTED_RESULTS)
      this.#results.push({
        text: `${displayToolName(name)}: called in entry ${this.#started.get(callId) ?? '?'}, result in entry ${seq}`,
        seq,
      });
    this.#started.delete(callId);
  }
}

const rule = (
  name: string,
  broken: string | undefined,
  awaited: string | undefined,
  evidence: readonly Evidence[],
): ContractRule =>
  ({
    name,
    state: broken ? 'broken' : awaited ? 'open' : 'kept',
    ...((broken ?? awaited) && { detail: broken ?? awaited }),
    evidence,
  }) as ContractRule;
