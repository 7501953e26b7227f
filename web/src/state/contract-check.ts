import { advance } from '../../../src/event/fold/advance.ts';
import { isFinal } from '../../../src/event/fold/entry-rules.ts';
import type { Entry, Snapshot } from '../../../src/event/types.ts';
import { displayToolName } from './frame-facts.ts';

export interface ContractRule {
  readonly name: string;
  readonly state: 'kept' | 'broken' | 'open';
  /** What is broken, or still awaited, in words. */
  readonly detail?: string;
}

/**
 * Folds the entries of a task and keeps book of the promises of its stream. A broken promise stays
 * broken, with the first reason; what follows is folded as well as it can be.
 */
export class ContractCheck {
  snapshot: Snapshot | undefined;
  #seq = 0;
  #first: Entry['type'] | undefined;
  #gap: string | undefined;
  #pruned = 0;
  #unlawful: string | undefined;
  #open = new Map<string, string>();
  #twice: string | undefined;
  #lost: string | undefined;
  #finalAt: number | undefined;
  #late: string | undefined;
  #closed = false;

  /** `old`: from a task that had ended before we came; its deltas may have been pruned since. */
  take(entry: Entry, old: boolean): void {
    this.#first ??= entry.type;
    this.#number(entry.seq, old);
    if (this.#finalAt !== undefined)
      this.#late ??= `entry ${entry.seq} (${entry.type}) came after the end, entry ${this.#finalAt}`;
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
      this.#unlawful ??= error instanceof Error ? error.message : String(error);
    }
  }

  /** The server says that nothing more will come. */
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
        first === undefined || first === 'turn.submitted' ? undefined : `it was ${first}`,
        first === undefined ? 'nothing has come yet' : undefined,
      ),
      {
        ...rule('Ids without a gap', this.#gap),
        ...(this.#pruned > 0 && {
          detail: `${this.#pruned} deltas were pruned after the end; their text is in what ends them`,
        }),
      },
      rule('Every event lawful', this.#unlawful),
      rule(
        'Every tool call answered, once',
        this.#twice ?? (over && exactly ? `never answered: ${exactly}` : undefined),
        names && `in flight: ${names}`,
      ),
      rule('No answer lost on the way', this.#lost),
      rule(
        'Exactly one final event, the last',
        this.#late ?? (this.#closed && !over ? 'the stream ended without one' : undefined),
        over ? undefined : 'the task goes on',
      ),
    ];
  }

  #number(seq: number, old: boolean): void {
    const expected = this.#seq + 1;
    if (seq > expected && old && this.#seq > 0) this.#pruned += seq - expected;
    else if (seq !== expected)
      this.#gap ??=
        seq > expected
          ? `after ${expected - 1} came ${seq}`
          : `${seq} came again after ${this.#seq}`;
    this.#seq = Math.max(this.#seq, seq);
  }

  #calls(entry: Entry): void {
    if (entry.type === 'tool.started' || entry.type === 'tool.called')
      this.#open.set(entry.callId, entry.name);
    if (entry.type === 'tool.completed' || entry.type === 'tool.failed') {
      if (!this.#open.delete(entry.callId))
        this.#twice ??= `${entry.name} (${entry.callId}) was answered again, or never called`;
    }
    if (entry.type === 'frame' && entry.frame.lost)
      this.#lost ??= `the frame of entry ${entry.seq} could not be written; nobody got it`;
  }
}

const rule = (name: string, broken: string | undefined, awaited?: string): ContractRule =>
  ({
    name,
    state: broken ? 'broken' : awaited ? 'open' : 'kept',
    ...((broken ?? awaited) && { detail: broken ?? awaited }),
  }) as ContractRule;
