import type { Seq, Snapshot, Turn } from '../../event/types.ts';
import type { StorePage, PageRequest, EntryRow, StoredValueChange } from './store.ts';
import type { Bookmark, StoredValue, TaskFilter } from '../types.ts';

/** A task as the rules see it: its snapshot and its claim. It is never changed, only replaced. */
export interface TaskHead {
  readonly task: string;
  readonly snapshot: Snapshot;
  /** Counts the claims. A writer with an older epoch is refused. */
  readonly epoch: number;
  readonly worker?: string | undefined;
  /** Steady clock of this process; 0 without a claim. */
  readonly leaseUntil: number;
}

/** The key of a turn for idempotency. */
export interface TurnKey {
  /** The owner, with the tenant if there is one. */
  readonly owner: string;
  readonly agent: string;
  readonly messageId: string;
}

export const turnKeyOf = ({ owner = '', tenant, agent, messageId }: Turn): TurnKey => ({
  owner: callerKey(owner, tenant),
  agent,
  messageId,
});

/** The key as one string, for maps. */
export const turnKeyText = ({ owner, agent, messageId }: TurnKey): string =>
  JSON.stringify([owner, agent, messageId]);

/** Takes rows until there are `maxRows`, or their lines have `maxBytes`; at least one. */
export function takeRows(from: Iterable<EntryRow>, maxRows: number, maxBytes: number): EntryRow[] {
  const rows: EntryRow[] = [];
  let bytes = 0;
  for (const row of from) {
    rows.push(row);
    bytes += row.line.length;
    if (rows.length >= maxRows || bytes >= maxBytes) break;
  }
  return rows;
}

/**
 * Returns a different key for each pair. A line break separates the two. If a name has a line
 * break, the pair is written as JSON after two line breaks, which the other form never has. Keys of
 * other names are the same as in earlier versions.
 */
function callerKey(owner: string, tenant: string | undefined): string {
  if (owner.includes('\n') || tenant?.includes('\n') === true)
    return `\n\n${JSON.stringify([owner, tenant ?? null])}`;
  return tenant === undefined ? owner : `${owner}\n${tenant}`;
}

/**
 * What the store rules need of a database to write one task, inside one transaction and without
 * waiting. The rules decide what may be written; an engine only stores it.
 */
export interface TaskStorage {
  load(task: string): TaskHead | undefined;
  /** Writes a task. `from` is what `load` returned, undefined for a new task. Rows are appended. */
  write(from: TaskHead | undefined, to: TaskHead, rows: readonly EntryRow[]): void;
  rows(task: string, after: Seq, maxRows: number, maxBytes: number): EntryRow[];
  turn(key: TurnKey): { readonly task: string; readonly seq: Seq } | undefined;
  rememberTurn(key: TurnKey, task: string, seq: Seq): void;
  /** Returns how many tasks of a party wait for a runner. */
  queued(party: string): number;
}

/** What the store rules need beyond that, to find, list and prune tasks. */
export interface StorageEngine extends TaskStorage {
  /**
   * Returns the next task to claim, also a suspended one from `dueAt` on: one whose lease has
   * expired; else a task of the party
   * (`partyOf`) with the fewest runs, among equals the one that was served longest ago, and of its
   * tasks the one that has waited longest since it last changed. Parties in `except` are skipped.
   */
  claimable(agents: readonly string[], now: number, except?: readonly string[]): string | undefined;
  /** From now on `claimable` does not return this task: it cannot be read. */
  setAside(task: string): void;
  /**
   * Returns when the first lease of a claimed task ends, or a suspended task is due, by the steady
   * clock.
   */
  nextLease(agents: readonly string[]): number | undefined;
  page(request: PageRequest): StorePage;
  count(filter: TaskFilter): number;
  putBookmark(mark: Bookmark): void;
  bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
    limit: number,
  ): Bookmark[];
  setValues(task: string, values: readonly StoredValueChange[]): void;
  values(task: string, prefix: string, after: string, maxBytes: number): StoredValue[];
  ended(before: number, limit: number): string[];
  uncompacted(before: number, limit: number): string[];
  /** Deletes these rows and marks the task as compacted. */
  compact(task: string, rows: readonly Seq[]): void;
  /** Deletes the task if it has ended, even if it cannot be read. */
  remove(task: string): void;
  /** Writes something that changes no task. */
  probe(thorough: boolean): void;
}
