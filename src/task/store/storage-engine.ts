import type { Seq, Snapshot, Turn } from '../../event/types.ts';
import type { StorePage, PageRequest, EntryRow, TaskFilter } from './store.ts';
import type { Bookmark } from '../types.ts';

/** A task as the rules see it: its fold and who may write it. Never changed, only replaced. */
export interface TaskHead {
  readonly task: string;
  readonly snapshot: Snapshot;
  /** Counts the claims; a writer with an older one is refused. */
  readonly epoch: number;
  readonly worker?: string | undefined;
  /** By the steady clock of this process; 0 without a claim. */
  readonly leaseUntil: number;
}

/** A turn's key for idempotency. */
export interface TurnKey {
  /** With the tenant in it, if there is one. */
  readonly owner: string;
  readonly agent: string;
  readonly messageId: string;
}

export const turnKeyOf = ({ owner = '', tenant, agent, messageId }: Turn): TurnKey => ({
  owner: callerKey(owner, tenant),
  agent,
  messageId,
});

/**
 * A different key for each pair. A line break separates the two; a name that has one in it is written
 * as JSON behind two, which the other form never has. Keys of names without one are as stored before.
 */
function callerKey(owner: string, tenant: string | undefined): string {
  if (owner.includes('\n') || tenant?.includes('\n') === true)
    return `\n\n${JSON.stringify([owner, tenant ?? null])}`;
  return tenant === undefined ? owner : `${owner}\n${tenant}`;
}

/**
 * What the rules (`ledger.ts`) need of a storage engine to write one task, in one transaction and
 * without waiting. `write` may be called only with what the rules allow; nothing here decides.
 */
export interface TaskStorage {
  load(task: string): TaskHead | undefined;
  /** `from` is what `load` gave, undefined for a new task. Rows go to the end of its log. */
  write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void;
  rows(task: string, after: Seq, maxRows: number, maxBytes: number): EntryRow[];
  turn(key: TurnKey): { readonly task: string; readonly seq: Seq } | undefined;
  rememberTurn(key: TurnKey, task: string, seq: Seq): void;
  /** How many tasks of a party wait for a runner. */
  queued(party: string): number;
}

/** What the rules need beyond that, to find, list and tidy up tasks. */
export interface StorageEngine extends TaskStorage {
  /**
   * The next task to claim: one whose lease has ended; else that of the party (`partyOf`) with the
   * fewest runs, among equals the one that was served longest ago, and of its tasks the one that
   * has waited longest since it last changed. Parties in `except` are passed over.
   */
  claimable(agents: readonly string[], now: number, except?: readonly string[]): string | undefined;
  /** `claimable` does not give this task any more: it cannot be read. */
  setAside(task: string): void;
  /** When the first lease of a claimed task ends, by the steady clock. */
  nextLease(agents: readonly string[]): number | undefined;
  page(request: PageRequest): StorePage;
  count(filter: TaskFilter): number;
  putBookmark(mark: Bookmark): void;
  bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
    limit: number,
  ): Bookmark[];
  ended(before: number, limit: number): string[];
  uncompacted(before: number, limit: number): string[];
  /** Deletes these rows and marks the task as compacted. */
  compact(task: string, rows: readonly Seq[]): void;
  /** Deletes the task if it has ended, also one that cannot be read. */
  remove(task: string): void;
  /** Writes something that changes no task. */
  probe(thorough: boolean): void;
}
