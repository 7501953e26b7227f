import type { Entry, Seq, Snapshot, TaskState } from '../../event/types.ts';
import type { Bookmark, ReplicaInfo } from '../types.ts';

/** A stored entry. `note` tells a note from an agent event without parsing it. */
export interface EntryRow {
  readonly seq: Seq;
  readonly note: boolean;
  /** The entry, as `encodeEntry` writes it. */
  readonly line: string;
  /** What `decodeEntry` makes of the line, where that is at hand. */
  readonly entry?: Entry | undefined;
}

export interface SubmitRequest {
  /** The `turn.submitted` note, as `encodeEvent` writes it. */
  readonly note: string;
  /** Who claims the task in the same commit, if it is free. */
  readonly worker?: string;
  readonly leaseMs: number;
  /** Whether a message id that is known gives the entry that is there. */
  readonly dedupe: boolean;
  /** With so many tasks of its party waiting for a runner, a new task is refused with `overloaded`. */
  readonly maxQueued?: number;
}

export interface AppendRequest {
  readonly task: string;
  readonly epoch: number;
  readonly after: Seq;
  /** As `encodeEvent` writes them. */
  readonly events: readonly string[];
  /** The same as they will be read, as far as that is known, for rows that are announced; a store may ignore it. */
  readonly entries?: readonly (Entry | undefined)[];
}

export interface ClaimRow {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
}

/** The place of a task in a list: newest change first, the key breaks ties. */
export interface ListPosition {
  readonly changedAt: number;
  readonly key: number;
}

/** Which tasks: those that match every member. An empty owner or tenant stands for tasks that have none. */
export interface TaskFilter {
  readonly agent?: string;
  readonly owner?: string;
  /** The tenant of the task's first turn. */
  readonly tenant?: string;
  readonly context?: string;
  readonly state?: TaskState;
  readonly changedAfter?: number;
}

export interface PageRequest extends TaskFilter {
  readonly after?: ListPosition;
  readonly limit: number;
  /** The page takes no further task when those in it have about so many characters; a store may ignore it. */
  readonly maxChars?: number;
  /** What `outlineOf` makes of each task is enough; a store that has less to read for it reads less. */
  readonly outline?: boolean;
}

export interface StorePage {
  readonly snapshots: readonly Snapshot[];
  /** The place of each snapshot, so that a reader can stop at any of them. */
  readonly places: readonly ListPosition[];
  /** Tasks that are stored and cannot be read, left out above. */
  readonly damaged?: readonly DamagedTask[];
  /** How many tasks of the page were pruned while it was read. */
  readonly gone?: number;
  /** The place of the last task of the page, whatever became of it; that of the last snapshot unless given. */
  readonly last?: ListPosition;
  /** It ends before `limit`, and there may be more. */
  readonly endsEarly?: boolean;
}

export interface DamagedTask {
  readonly task: string;
  readonly reason: string;
}

/**
 * What a commit did to one task. Announced after the commit, in order. One that another replica
 * made comes without its rows: `head` says that there are some to read.
 */
export interface Commit {
  readonly task: string;
  readonly epoch: number;
  /** Whether that epoch's claim still stands. */
  readonly held: boolean;
  readonly rows: readonly EntryRow[];
  readonly head: Seq;
  readonly ended: boolean;
  /** Whether a runner could claim it now. */
  readonly claimable: boolean;
}

export interface ReadResult {
  readonly rows: readonly EntryRow[];
  readonly head: Seq;
  readonly ended: boolean;
}

/**
 * What a database has to do for a `TaskLog`; readers, heartbeats, notes and claims as a stream are
 * built on it once (`log.ts`). Each method is atomic, and durable when it resolves. Refusals are
 * DuolaneErrors with the codes that `TaskLog` names; a failing database is `server`.
 */
export interface StoreMethods {
  submit(request: SubmitRequest): {
    readonly task: string;
    readonly row: EntryRow;
    readonly claim?: ClaimRow;
  };
  /**
   * Writes the note, and the end too when no claim is live. With `force` the end is written past a
   * live claim as well: its epoch is over, and its owner is fenced.
   */
  cancel(task: string, note: string, force?: boolean): Snapshot;
  /**
   * The next task that needs a runner, in fair order by party (`Tables.claimable`); else how long
   * until a lease ends that might free one. `except`: parties that are passed over.
   */
  claim(
    worker: string,
    agents: readonly string[],
    leaseMs: number,
    except?: readonly string[],
  ): {
    readonly claim?: ClaimRow;
    readonly retryInMs?: number;
    /** Tasks that cannot be read; they are not claimed until the store is opened again. */
    readonly damaged?: readonly DamagedTask[];
  };
  append(request: AppendRequest): Seq;
  release(task: string, epoch: number): void;
  /** Extends these claims. `over`: ended or released; `lost`: somebody else has it. */
  beat(
    claims: readonly { readonly task: string; readonly epoch: number }[],
    leaseMs: number,
  ): readonly {
    readonly task: string;
    readonly claim: 'held' | 'over' | 'lost';
    readonly head: Seq;
  }[];
  /**
   * A piece of the log after a place: at most some hundred rows, and about 1 MiB or `maxBytes`, which a
   * store may ignore; if there is a row, then at least one. Undefined: no such task.
   */
  read(task: string, after: Seq, maxBytes?: number): ReadResult | undefined;
  heads(tasks: readonly string[]): readonly {
    readonly task: string;
    readonly head: Seq;
    readonly ended: boolean;
  }[];
  get(task: string): Snapshot | undefined;
  page(request: PageRequest): StorePage;
  /** How many tasks there are, without reading them. */
  count(filter: TaskFilter): number;
  bookmark(mark: Bookmark): void;
  bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
  ): readonly Bookmark[];
  /** Some tasks that ended before the time; all are named after enough rounds of `remove`. */
  ended(before: number): readonly string[];
  remove(tasks: readonly string[]): void;
  /** Compacts some tasks that ended before the time; 0 when there is none left. */
  compact(before: number): number;
  /**
   * Writes something that changes no task, to see whether the database accepts writes: a few bytes, or
   * `thorough`ly about as much as a busy run, where that makes a difference.
   */
  probe(thorough?: boolean): void;
}

/** Which methods only look. They see what is committed, never what is about to be. */
export const STORE_METHODS: Readonly<Record<keyof StoreMethods, 'read' | 'write'>> = {
  submit: 'write',
  cancel: 'write',
  claim: 'write',
  append: 'write',
  release: 'write',
  beat: 'write',
  read: 'read',
  heads: 'read',
  get: 'read',
  page: 'read',
  count: 'read',
  bookmark: 'write',
  bookmarks: 'read',
  ended: 'read',
  remove: 'write',
  compact: 'write',
  probe: 'write',
};

export type StoreCalls = {
  readonly [K in keyof StoreMethods]: (
    ...args: Parameters<StoreMethods[K]>
  ) => Promise<ReturnType<StoreMethods[K]>>;
};

export interface Store extends StoreCalls, AsyncDisposable {
  /** True when every commit of this database is announced here; otherwise the log also polls. */
  readonly announcesAll: boolean;
  /**
   * True when only this process can write the database. A claim is then never another process's, so
   * the log keeps its claims however long the store does not answer.
   */
  readonly exclusive?: boolean;
  /** Calls the listener for each commit, before the call that caused it resolves. Gives the way to stop. */
  onCommit(listener: (commit: Commit) => void): () => void;
  /**
   * Calls the listener when commits may have gone unannounced, as after a lost connection: whoever
   * reads looks again. A store without it never misses one, or does not announce all.
   */
  onGap?(listener: () => void): () => void;
  /** Calls the listener with each task that the store deletes without being asked to. */
  onEvict?(listener: (task: string) => void): () => void;
  /** The replicas that share the database, where there can be several. */
  replicas?(): Promise<readonly ReplicaInfo[]>;
}

/** The methods of a store, all through one function: what a worker, a test or a wire needs. */
export function storeFromCalls(
  call: (method: keyof StoreMethods, args: readonly unknown[]) => Promise<unknown>,
): StoreCalls {
  const names = Object.keys(STORE_METHODS) as (keyof StoreMethods)[];
  const calls = names.map((name) => [name, (...args: unknown[]) => call(name, args)]);
  return Object.fromEntries(calls) as StoreCalls;
}

/** One call on a ledger by its name, the other end of `storeFromCalls`. */
export function callStoreMethod(
  methods: StoreMethods,
  method: keyof StoreMethods,
  args: readonly unknown[],
): unknown {
  return (methods[method] as (...args: unknown[]) => unknown).apply(methods, [...args]);
}
