import { asArray, asStrings, type JsonObject } from '../../json.ts';

interface Sent {
  readonly turn: number;
  started: boolean;
  /** Sent before the running turn began, so that turn may have included it. */
  early: boolean;
  /** A result came after it was sent, and no turn has begun since. */
  passed: boolean;
}

/** How the last turn ended. */
export interface TurnResult {
  readonly turn: number;
  readonly isError: boolean;
  readonly message: JsonObject;
}

/**
 * Decides which result ends which turn, as a pure state machine. Every message that the host sends
 * has a uuid and opens a turn; turns are numbered from 1. The rules, the most reliable first:
 *
 * 1. A result that names uuids (`user_message_uuids`) ends those turns and no others.
 * 2. If the CLI has named uuids before, a result without uuids ends the turns that the CLI reported
 *    as `started`. Without such turns it is a turn of the CLI's own, e.g. after a background task.
 * 3. Each result of a CLI that never names uuids ends the oldest open turn. When the CLI then
 *    reports that it is idle, turns sent before its last turn began were merged into that one. The
 *    same holds for turns that stay `doubtful`: a result came after they were sent, and no turn has
 *    begun since.
 *
 * Without these rules, a late result of an interrupted turn would end the next turn.
 */
export class TurnTracker {
  readonly #open = new Map<string, Sent>();
  #sent = 0;
  #names = false;
  #taken = 0; // the highest turn that completed inside a running turn, whose result comes later
  #last: TurnResult | undefined;

  /** The number of the last turn that was sent. */
  get sent(): number {
    return this.#sent;
  }

  /** How many turns wait for their result. */
  get open(): number {
    return this.#open.size;
  }

  get last(): TurnResult | undefined {
    return this.#last;
  }

  /** Whether every message that was sent has its result. */
  get settled(): boolean {
    return this.#sent > 0 && this.#open.size === 0;
  }

  /** Whether all open turns may have ended inside another turn, without a report of the CLI. */
  get doubtful(): boolean {
    return (
      !this.#names && this.#open.size > 0 && [...this.#open.values()].every((sent) => sent.passed)
    );
  }

  /** Ends the doubtful turns, after the CLI stayed silent. Returns the highest of them. */
  assumeMerged(): number {
    return this.doubtful ? this.#closeAll(() => true) : 0;
  }

  send(uuid: string): number {
    this.#open.set(uuid, {
      turn: ++this.#sent,
      started: false,
      early: false,
      passed: false,
    });
    return this.#sent;
  }

  /** Removes the turn of a message that never reached the CLI, since no result will come. */
  drop(uuid: string): void {
    this.#close(uuid);
  }

  isOpen(turn: number): boolean {
    for (const sent of this.#open.values()) if (sent.turn === turn) return true;
    return false;
  }

  /** The open turns by uuid. */
  snapshot(): ReadonlyMap<string, number> {
    return new Map([...this.#open].map(([uuid, { turn }]) => [uuid, turn]));
  }

  /** Reads a message. Returns the highest turn that it ends; 0 if it ends no turn of the host. */
  observe(message: JsonObject): number {
    switch (message['type']) {
      case 'result':
        return this.#result(message);
      case 'command_lifecycle':
        return this.#lifecycle(message);
      case 'system':
        return this.#system(message);
      default:
        return 0;
    }
  }

  #result(message: JsonObject): number {
    const named = uuidsOf(message);
    let turn = this.#taken;
    this.#taken = 0;
    if (named.length > 0) {
      this.#names = true;
      for (const uuid of named) turn = Math.max(turn, this.#close(uuid));
    } else if (this.#names) {
      turn = Math.max(
        turn,
        this.#closeAll(({ started }) => started),
      );
    } else {
      const [oldest] = this.#open.keys();
      if (oldest !== undefined) turn = Math.max(turn, this.#close(oldest));
    }
    for (const sent of this.#open.values()) sent.passed = true;
    this.#last = { turn, isError: message['is_error'] === true, message };
    return turn;
  }

  #lifecycle(message: JsonObject): number {
    this.#names = true;
    const uuid = String(message['command_uuid']);
    switch (message['state']) {
      case 'started':
        this.#start(uuid);
        return 0;
      case 'completed':
        this.#taken = Math.max(this.#taken, this.#close(uuid));
        return 0;
      case 'cancelled':
        return this.#close(uuid);
      default:
        return 0;
    }
  }

  #system(message: JsonObject): number {
    if (message['subtype'] === 'init') {
      const named = uuidsOf(message);
      this.#names ||= named.length > 0;
      for (const uuid of named) this.#start(uuid);
      for (const sent of this.#open.values()) {
        sent.early = true;
        sent.passed = false;
      }
    } else if (message['subtype'] === 'session_state_changed' && message['state'] === 'idle') {
      // Only turns sent before the last turn began: a later message may still be in the pipe.
      return this.#names || !this.#last ? 0 : this.#closeAll(({ early }) => early);
    }
    return 0;
  }

  #closeAll(which: (sent: Sent) => boolean): number {
    let turn = 0;
    for (const [uuid, sent] of this.#open) {
      if (which(sent)) turn = Math.max(turn, this.#close(uuid));
    }
    return turn;
  }

  #start(uuid: string): void {
    const sent = this.#open.get(uuid);
    if (sent) sent.started = true;
  }

  #close(uuid: string): number {
    const turn = this.#open.get(uuid)?.turn ?? 0;
    this.#open.delete(uuid);
    return turn;
  }
}

function uuidsOf(message: JsonObject): readonly string[] {
  const many = message['user_message_uuids'];
  if (Array.isArray(many)) return asStrings(many);
  const one = message['user_message_uuid'];
  return typeof one === 'string' ? [one] : [];
}

/** The highest turn that an interrupt ended: the open turns without those that are still queued. */
export function lastInterruptedTurn(
  open: ReadonlyMap<string, number>,
  receipt: { readonly still_queued?: unknown },
): number {
  const queued = asArray(receipt.still_queued);
  return Math.max(0, ...[...open].map(([uuid, turn]) => (queued.includes(uuid) ? 0 : turn)));
}
