import type { JsonObject } from '../../json.ts';

interface Sent {
  readonly turn: number;
  started: boolean;
  /** Sent before the running turn began, so that turn may have taken it along. */
  early: boolean;
  /** A result came after it, and no turn has begun since. */
  passed: boolean;
}

/** How the last turn ended. */
export interface TurnResult {
  readonly turn: number;
  readonly isError: boolean;
  readonly message: JsonObject;
}

/**
 * Which result ends which turn, as a pure machine. Every message that we send opens a turn, numbered
 * from 1; each message that goes out carries a uuid. The rule, best knowledge first:
 *
 * 1. A result that names uuids (`user_message_uuids`) ends those turns, and only those.
 * 2. If the CLI has named uuids before, a result without any ends the turns that it said had
 *    `started`; if there is none, it is a turn of the CLI's own (a background task finished).
 * 3. A CLI that never names uuids ends the oldest open turn with each result. When it then says that
 *    it is idle, turns sent before its last turn began were merged into that one. So are those that
 *    are `doubtful` for long: a result came after them, and no turn began behind it.
 *
 * So what is left of an interrupted turn never ends the next one.
 */
export class TurnTracker {
  readonly #open = new Map<string, Sent>();
  #sent = 0;
  #names = false;
  #taken = 0; // completed inside a running turn, whose result is still to come
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

  /** Whether all that was sent has its result. */
  get settled(): boolean {
    return this.#sent > 0 && this.#open.size === 0;
  }

  /** Whether all that is open may have ended inside another turn, and the CLI does not say. */
  get doubtful(): boolean {
    return (
      !this.#names && this.#open.size > 0 && [...this.#open.values()].every((sent) => sent.passed)
    );
  }

  /** The CLI stayed silent: what is doubtful has ended. The highest of these turns. */
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

  /** A message that never reached the CLI: it has no result to wait for. */
  drop(uuid: string): void {
    this.#close(uuid);
  }

  isOpen(turn: number): boolean {
    for (const sent of this.#open.values()) if (sent.turn === turn) return true;
    return false;
  }

  /** The turns that wait for their result, by uuid. */
  snapshot(): ReadonlyMap<string, number> {
    return new Map([...this.#open].map(([uuid, { turn }]) => [uuid, turn]));
  }

  /** The highest turn that this message ends; 0 if it ends none of ours. */
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
      // Not a message that may still be in the pipe: only what was there when the turn began.
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
  if (Array.isArray(many)) return many.filter((uuid) => typeof uuid === 'string');
  const one = message['user_message_uuid'];
  return typeof one === 'string' ? [one] : [];
}

/** The highest turn that an interrupt ended: of those that were open, all but the queued ones. */
export function lastInterruptedTurn(
  open: ReadonlyMap<string, number>,
  receipt: { readonly still_queued?: unknown },
): number {
  const still_queued: readonly unknown[] = Array.isArray(receipt.still_queued)
    ? receipt.still_queued
    : [];
  return Math.max(0, ...[...open].map(([uuid, turn]) => (still_queued.includes(uuid) ? 0 : turn)));
}
