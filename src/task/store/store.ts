import type { Entry, Seq, Snapshot } from '../../event/types.ts';
import type { Bookmark, ReplicaInfo, StoredValue, TaskFilter } from '../types.ts';

/** A stored entry. `note` says whether it is a note, without decoding it. */
export interface EntryRow {
  readonly seq: Seq;
  readonly note: boolean;
  /** The entry, as `encodeEntry` writes it. */
  readonly line: string;
  /** The decoded line, if it is known. */
  readonly entry?: Entry | undefined;
}

export interface SubmitRequest {
  /** The `turn.submitted` note, as `encodeEvent` writes it. */
  readonly note: string;
  /** The worker that claims the task in the same commit, if it is free. */
  readonly worker?: string;
  readonly leaseMs: number;
  /** Whether a known message id returns the existing entry. */
  readonly dedupe: boolean;
  /** If so many tasks of its party wait for a runner, a new task is refused with `overloaded`. */
  readonly maxQueued?: number;
}

export interface AppendRequest {
  readonly task: string;
  readonly epoch: number;
  readonly after: Seq;
  /** Encoded by `encodeEvent`. */
  readonly events: readonly string[];
  /**
   * The decoded events as far as they are known, for the announced rows. A store may ignore them.
   */
  readonly entries?: readonly (Entry | undefined)[];
}

export interface ClaimRow {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
}

/** The position of a task in a list: newest change first, then the key. */
export interface ListPosition {
  readonly changedAt: number;
  readonly key: number;
}

export interface PageRequest extends TaskFilter {
  readonly after?: ListPosition;
  readonly limit: number;
  /** The list page ends after about so many characters of tasks. A store may ignore it. */
  readonly maxChars?: number;
  /** The caller needs only what `outlineOf` keeps, so a store may read less. */
  readonly outline?: boolean;
}

export interface StorePage {
  readonly snapshots: readonly Snapshot[];
  /** The position of each snapshot, so that a reader can stop at any of them. */
  readonly places: readonly ListPosition[];
  /** Stored tasks that cannot be read; `snapshots` does not have them. */
  readonly damaged?: readonly DamagedTask[];
  /** How many tasks were pruned while the list page was read. */
  readonly gone?: number;
  /** The position of the last task of the list page, even if it is damaged or gone. */
  readonly last?: ListPosition;
  /** The list page ends before `limit`, and there may be more tasks. */
  readonly endsEarly?: boolean;
}

/** A value to write, or to delete if it is undefined. */
export interface StoredValueChange {
  readonly key: string;
  readonly value?: string | undefined;
}

export interface DamagedTask {
  readonly task: string;
  readonly reason: string;
}

/**
 * What a commit did to one task. Commits are announced in order, after they are durable. A commit
 * of another replica is announced without its rows: if `head` is higher, read them.
 */
export interface Commit {
  readonly task: string;
  readonly epoch: number;
  /** Whether the claim of that epoch is still active. */
  readonly claimed: boolean;
  readonly rows: readonly EntryRow[];
  readonly head: Seq;
  readonly ended: boolean;
  /** Whether a runner could claim the task now. */
  readonly claimable: boolean;
}

export interface ReadResult {
  readonly rows: readonly EntryRow[];
  readonly head: Seq;
  readonly ended: boolean;
}

/**
 * What a database does for a `TaskLog`. The log implements readers, heartbeats, notes and the
 * stream of claims on top of it. Each method is atomic, and durable when it resolves. A refusal is
 * a DuolaneError with a code that `TaskLog` names; a failure of the database has the code `server`.
 */
export interface StoreMethods {
  submit(request: SubmitRequest): {
    readonly task: string;
    readonly row: EntryRow;
    readonly claim?: ClaimRow;
  };
  /**
   * Appends the note, and the end too if no claim is live. With `force` it writes the end despite a
   * live claim: that claim holder is fenced.
   */
  cancel(task: string, note: string, force?: boolean): Snapshot;
  /**
   * Claims the next task that needs a runner, in the order of `StorageEngine.claimable`; else says
   * after how long a lease ends that may free one. `except`: parties that are skipped.
   */
  claim(
    worker: string,
    agents: readonly string[],
    leaseMs: number,
    except?: readonly string[],
  ): {
    readonly claim?: ClaimRow;
    readonly retryInMs?: number;
    /** Tasks that cannot be read. They are not claimed until the store is opened again. */
    readonly damaged?: readonly DamagedTask[];
  };
  append(request: AppendRequest): Seq;
  release(task: string, epoch: number): void;
  /** Renews these claims. `over`: ended or released; `lost`: another worker has it. */
  beat(
    claims: readonly { readonly task: string; readonly epoch: number }[],
    leaseMs: number,
  ): readonly {
    readonly task: string;
    readonly claim: 'held' | 'over' | 'lost';
    readonly head: Seq;
  }[];
  /**
   * Reads entries after a position: at most some hundred rows and about 1 MiB, or `maxBytes`, which
   * a store may ignore. Returns at least one row if there is one, and undefined without the task.
   */
  read(task: string, after: Seq, maxBytes?: number): ReadResult | undefined;
  heads(tasks: readonly string[]): readonly {
    readonly task: string;
    readonly head: Seq;
    readonly ended: boolean;
  }[];
  get(task: string): Snapshot | undefined;
  page(request: PageRequest): StorePage;
  /** Counts tasks without reading them. */
  count(filter: TaskFilter): number;
  bookmark(mark: Bookmark): void;
  bookmarks(
    task: string | undefined,
    after: Pick<Bookmark, 'task' | 'name'> | undefined,
  ): readonly Bookmark[];
  /**
   * Writes these values of a task together, if the claim is still held; throws `fenced` otherwise.
   * A value that is undefined is deleted.
   */
  setValues(
    claim: { readonly task: string; readonly epoch: number },
    values: readonly StoredValueChange[],
  ): void;
  /**
   * Returns values whose key starts with `prefix` and is after `after`, in the order of their keys
   * by code unit: at least one if there is one, and about 1 MiB.
   */
  values(task: string, prefix: string, after?: string): readonly StoredValue[];
  /** Returns some tasks that ended before the time; `remove` them to get the next ones. */
  ended(before: number): readonly string[];
  remove(tasks: readonly string[]): void;
  /** Compacts some tasks that ended before the time; returns 0 when none remains. */
  compact(before: number): number;
  /**
   * Writes something that changes no task, to find out whether the database accepts writes: a few
   * bytes, or, if `thorough`, about as much as a busy run, where that makes a difference.
   */
  probe(thorough?: boolean): void;
}

/** Which methods only read. They see what is committed, never a write that is under way. */
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
  setValues: 'write',
  values: 'read',
  ended: 'read',
  remove: 'write',
  compact: 'write',
  probe: 'write',
};

/** The methods of a store, each returning a promise. */
export type StoreCalls = {
  readonly [K in keyof StoreMethods]: (
    ...args: Parameters<StoreMethods[K]>
  ) => Promise<ReturnType<StoreMethods[K]>>;
};

/** The database behind a `TaskLog`. `openLog` opens a log over it. */
export interface Store extends StoreCalls, AsyncDisposable {
  /** Whether every commit of the database is announced here; otherwise the log also polls. */
  readonly announcesAll: boolean;
  /**
   * Whether only this process can write the database. Then no other process can claim a task, and
   * the log keeps its claims however long the store does not reply.
   */
  readonly exclusive?: boolean;
  /**
   * Calls the listener for each commit, before its call resolves. Returns a function that stops it.
   */
  onCommit(listener: (commit: Commit) => void): () => void;
  /**
   * Calls the listener when commits may have gone unannounced, as after a lost connection, so that
   * readers read again. A store without this method never misses a commit, or does not announce
   * all.
   */
  onGap?(listener: () => void): () => void;
  /** Calls the listener with each task that the store deletes on its own. */
  onEvict?(listener: (task: string) => void): () => void;
  /** The replicas that share the database, where there can be several. */
  replicas?(): Promise<readonly ReplicaInfo[]>;
}

/**
 * Implements the methods of a store by one function, for a worker thread, a test or a connection.
 */
export function storeFromCalls(
  call: (method: keyof StoreMethods, args: readonly unknown[]) => Promise<unknown>,
): StoreCalls {
  const names = Object.keys(STORE_METHODS) as (keyof StoreMethods)[];
  const calls = names.map((name) => [name, (...args: unknown[]) => call(name, args)]);
  return Object.fromEntries(calls) as StoreCalls;
}

/** Calls a method of a store by its name: the counterpart of `storeFromCalls`. */
export function callStoreMethod(
  methods: StoreMethods,
  method: keyof StoreMethods,
  args: readonly unknown[],
): unknown {
  return (methods[method] as (...args: unknown[]) => unknown).apply(methods, [...args]);
}
