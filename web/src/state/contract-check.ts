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
}

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

  /**
   * `old`: the task had ended before the page connected. The server may have pruned its deltas, so
   * a gap in the ids breaks no rule.
   */
  take(entry: Entry, old: boolean): void {
    this.#first ??= entry.type;
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

  get over(): boolean {
    return this.#finalAt !== undefined;
  }

  get rules(): readonly ContractRule[] {
    const { over } = this;
    const open = [...this.#open];
    const names = open.map(([, name]) => displayToolName(name)).join(', ');
    const exactly = open.map(([callId, name]) => `${name} (${callId})`).join(', ');
    const first = this.#first;
    return [
      rule(
        'First event is the submitted task',
        first === undefined || first === 'turn.submitted'
          ? undefined
          : `the first event is ${first}`,
        first === undefined ? 'no event yet' : undefined,
      ),
      {
        ...rule('Ids without a gap', this.#gap),
        ...(this.#pruned > 0 && {
          detail: `${this.#pruned} deltas were pruned after the end; the final text of each block is complete`,
        }),
      },
      rule('All events valid', this.#invalid),
      rule(
        'Every tool call answered once',
        this.#repeatedAnswer ?? (over && exactly ? `never answered: ${exactly}` : undefined),
        names && `in flight: ${names}`,
      ),
      rule('All responses delivered', this.#lost),
      rule(
        'Exactly one final event, at the end',
        this.#late ??
          (this.#closed && !over ? 'the stream ended without a final event' : undefined),
        over ? undefined : 'the task continues',
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
    if (entry.type === 'tool.started' || entry.type === 'tool.called')
      this.#open.set(entry.callId, entry.name);
    if (entry.type === 'tool.completed' || entry.type === 'tool.failed') {
      if (!this.#open.delete(entry.callId))
        this.#repeatedAnswer ??= `${entry.name} (${entry.callId}) was answered twice or never called`;
    }
    if (entry.type === 'frame' && entry.frame.lost)
      this.#lost ??= `the frame of entry ${entry.seq} could not be written, so the peer did not get it`;
  }
}

const rule = (name: string, broken: string | undefined, awaited?: string): ContractRule =>
  ({
    name,
    state: broken ? 'broken' : awaited ? 'open' : 'kept',
    ...((broken ?? awaited) && { detail: broken ?? awaited }),
  }) as ContractRule;
