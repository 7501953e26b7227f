import { needsRun } from '../../event/fold/advance.ts';
import { dueAt } from '../../event/fold/steps.ts';
import type { Snapshot } from '../../event/types.ts';
import { steadyNow } from '../steady-clock.ts';

/**
 * Returns the party of a task, which shares the runners fairly: its owner, or its tenant without
 * one.
 */
export const partyOf = ({ owner = '', turns }: Snapshot): string =>
  owner || (turns[0]?.tenant ?? '');

/**
 * Whether a task needs a runner now, or has one that may be gone: a suspended task that was claimed
 * because its time has come.
 */
export const needsRunner = (snapshot: Snapshot, worker: string | undefined): boolean =>
  needsRun(snapshot) || (worker !== undefined && dueAt(snapshot) !== undefined);

/** A task that needs a runner. */
export interface QueuedTask {
  readonly task: string;
  readonly party: string;
  readonly agent: string;
  /** When it last changed, in Unix ms. Within a party the oldest task is first. */
  readonly changedAt: number;
  /** Decides between equal times, by the order of creation. */
  readonly key: number;
  /** Whether a runner has claimed it. */
  readonly claimed: boolean;
  /** Steady clock. */
  readonly leaseUntil: number;
  /** It is claimed and waits for a person, so it does not keep a runner busy. */
  readonly waits: boolean;
}

interface Party {
  /** Tasks without a claim, by agent, oldest first. */
  readonly waiting: Map<string, QueuedTask[]>;
  /** How many tasks wait, how many are claimed, and how many of those keep a runner busy. */
  count: number;
  claims: number;
  runs: number;
  /** When it was last served, as a number that counts claims. */
  served: number;
}

/**
 * The tasks of one process that need a runner, in fair order: the party with the fewest runs first,
 * then the one that was served longest ago, and within a party the oldest task. The cost of a claim
 * depends on the number of waiting parties, not on the number of tasks.
 */
export class RunQueue {
  readonly #tasks = new Map<string, QueuedTask>();
  readonly #parties = new Map<string, Party>();
  readonly #claimed = new Map<string, QueuedTask>();
  /** Suspended tasks that wait for a time. */
  readonly #timers = new Map<string, { readonly item: QueuedTask; readonly dueAt: number }>();
  /** No suspended task is due before this. */
  #nextDue = Infinity;
  #served = 0;
  /** No lease ends before this. */
  #nextEnd = Infinity;

  /** Updates a task. Without `changedAt` it keeps the time it had. */
  update(
    task: string,
    snapshot: Snapshot,
    claim: { readonly worker?: string | undefined; readonly leaseUntil: number },
    key: number,
    changedAt?: number,
  ): void {
    const before = this.#tasks.get(task);
    const due = dueAt(snapshot);
    const isNeeded = needsRunner(snapshot, claim.worker);
    if (!isNeeded) this.delete(task);
    if (!isNeeded && due === undefined) return;
    const item: QueuedTask = {
      task,
      party: before?.party ?? partyOf(snapshot),
      agent: snapshot.agent,
      changedAt: changedAt ?? before?.changedAt ?? snapshot.updatedAt,
      key,
      claimed: claim.worker !== undefined,
      leaseUntil: claim.leaseUntil,
      waits: snapshot.state === 'input-required' || snapshot.state === 'auth-required',
    };
    this.#timers.delete(task);
    if (isNeeded || due === undefined) this.put(item);
    else this.putTimer(item, due);
  }

  /** Adds a suspended task, which waits for a runner from `dueAt` (Unix ms) on. */
  putTimer(item: QueuedTask, due: number): void {
    this.#timers.set(item.task, { item, dueAt: due });
    this.#nextDue = Math.min(this.#nextDue, due);
  }

  /** Moves the suspended tasks whose time has come to the queue. */
  #queueDue(wall: number): void {
    if (wall < this.#nextDue) return;
    this.#nextDue = Infinity;
    for (const { item, dueAt: due } of this.#timers.values())
      if (due > wall) this.#nextDue = Math.min(this.#nextDue, due);
      else {
        this.#timers.delete(item.task);
        this.put(item);
      }
  }

  put(item: QueuedTask): void {
    const before = this.#tasks.get(item.task);
    const party = this.#party(item.party);
    if (before?.claimed === false && !item.claimed && before.changedAt === item.changedAt) return;
    if (before) this.#take(before, party);
    this.#tasks.set(item.task, item);
    if (item.claimed) {
      // A claim begins here; a renewed one was claimed before.
      if (before?.claimed !== true) party.served = ++this.#served;
      this.#claimed.set(item.task, item);
      this.#nextEnd = Math.min(this.#nextEnd, item.leaseUntil);
      party.claims++;
      if (!item.waits) party.runs++;
    } else {
      insert(party.waiting, item);
      party.count++;
    }
  }

  delete(task: string): void {
    this.#timers.delete(task);
    const item = this.#tasks.get(task);
    if (!item) return;
    const party = this.#party(item.party);
    this.#take(item, party);
    this.#tasks.delete(task);
    if (party.count + party.claims === 0) this.#parties.delete(item.party);
  }

  /** Returns the next task to claim. `except`: parties that may not have another run. */
  claimable(
    agents: readonly string[],
    now: number,
    except: readonly string[] = [],
    wall: number = Date.now(),
  ): string | undefined {
    this.#queueDue(wall);
    const expired = this.#expired(agents, now);
    if (expired) return expired.task;
    let found: { readonly item: QueuedTask; readonly party: Party } | undefined;
    for (const [name, party] of this.#parties) {
      if (party.count === 0 || except.includes(name)) continue;
      const item = oldest(party.waiting, agents);
      if (item && (!found || isBefore({ item, party }, found))) found = { item, party };
    }
    return found?.item.task;
  }

  /** Returns when the first lease of a claimed task ends, or a suspended task is due. */
  nextLease(agents: readonly string[]): number | undefined {
    let next: number | undefined;
    const ahead = steadyNow() - Date.now();
    for (const { item, dueAt: due } of this.#timers.values())
      if (agents.includes(item.agent) && (next === undefined || due + ahead < next))
        next = due + ahead;
    for (const { agent, leaseUntil } of this.#claimed.values())
      if (agents.includes(agent) && (next === undefined || leaseUntil < next)) next = leaseUntil;
    return next;
  }

  /** Returns how many tasks of the party wait for a runner. */
  queued(party: string): number {
    return this.#parties.get(party)?.count ?? 0;
  }

  #expired(agents: readonly string[], now: number): QueuedTask | undefined {
    if (now < this.#nextEnd) return undefined;
    let found: QueuedTask | undefined;
    this.#nextEnd = Infinity;
    for (const item of this.#claimed.values()) {
      this.#nextEnd = Math.min(this.#nextEnd, item.leaseUntil);
      if (item.leaseUntil > now || !agents.includes(item.agent)) continue;
      if (!found || item.leaseUntil < found.leaseUntil) found = item;
    }
    return found;
  }

  #take(item: QueuedTask, party: Party): void {
    if (item.claimed) {
      this.#claimed.delete(item.task);
      party.claims--;
      if (!item.waits) party.runs--;
    } else {
      const items = party.waiting.get(item.agent) ?? [];
      items.splice(items.indexOf(item), 1);
      if (items.length === 0) party.waiting.delete(item.agent);
      party.count--;
    }
  }

  // A new party is served after those that already wait.
  #party(name: string): Party {
    let party = this.#parties.get(name);
    if (!party) {
      party = { waiting: new Map(), count: 0, claims: 0, runs: 0, served: this.#served };
      this.#parties.set(name, party);
    }
    return party;
  }
}

interface Candidate {
  readonly item: QueuedTask;
  readonly party: Party;
}

const isBefore = (one: Candidate, other: Candidate): boolean =>
  (one.party.runs - other.party.runs ||
    one.party.served - other.party.served ||
    byAge(one.item, other.item)) < 0;

const byAge = (one: QueuedTask, other: QueuedTask): number =>
  one.changedAt - other.changedAt || one.key - other.key;

// A new task is nearly always the newest, so search from the end.
function insert(waiting: Map<string, QueuedTask[]>, item: QueuedTask): void {
  const items = waiting.get(item.agent);
  if (!items) return void waiting.set(item.agent, [item]);
  let at = items.length;
  while (at > 0 && byAge(items[at - 1] as QueuedTask, item) > 0) at--;
  items.splice(at, 0, item);
}

function oldest(
  waiting: ReadonlyMap<string, readonly QueuedTask[]>,
  agents: readonly string[],
): QueuedTask | undefined {
  let found: QueuedTask | undefined;
  for (const [agent, [item]] of waiting)
    if (item && agents.includes(agent) && (!found || byAge(item, found) < 0)) found = item;
  return found;
}
