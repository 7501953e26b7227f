import type { Answer } from '../ask.ts';
import type {
  Agent,
  AgentContext,
  AgentEvent,
  Entry,
  Logger,
  Note,
  Seq,
  Snapshot,
  TaskEvent,
  TaskState,
  Turn,
} from '../event/types.ts';
import type { Failure } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import type { Abortable, Items, ListOptions } from '../stream/types.ts';

/**
 * The durable log of tasks. An entry is durable before any reader sees it. Agent events have one
 * writer, the claim holder; anyone may append notes.
 */
export interface TaskLog extends AsyncDisposable {
  /**
   * Appends `turn.submitted`, and creates the task if it is new. A known messageId returns its
   * entry; for another task it is `invalid`. After the end of the task, throws `closed`. A second
   * answer to a question is a `conflict` that names the first, and an answer to a question that is
   * not open is `invalid`. A new task beyond `maxQueuedPerOwner` is `overloaded`. With `worker`,
   * also claims the task in the same commit if it is free.
   */
  submit(
    turn: Turn,
    options?: { readonly worker?: string },
  ): Promise<{ readonly entry: Entry; readonly claim?: Claim }>;
  /**
   * Appends `cancel.requested`, and the end too if no claim is live. May be called twice;
   * throws `closed` if the task has ended otherwise. A claim holder that has not written the end
   * after `cancelTimeoutMs` is fenced, and the end is written without it.
   */
  requestCancel(task: string, reason?: string): Promise<Snapshot>;
  /**
   * Yields tasks that need a runner (unserved, answered, or with an expired claim), claimed as they
   * are pulled. The order is fair: the owner with the fewest runs, then the one that was served
   * longest ago. Pull when you have room. `onIdle` is called whenever no task can be claimed; tasks
   * of owners in `limited` are not claimed now. An abort during a claim ends the loop when that
   * claim was released.
   */
  claims(
    worker: string,
    options: Abortable & {
      readonly agents: readonly string[];
      readonly onIdle?: () => void;
      readonly limited?: LimitedOwners;
    },
  ): AsyncIterable<Claim>;
  /**
   * Appends events atomically; `after` must be the last entry. `conflict`: a note was appended
   * first; read on from `after` and decide again. `fenced`: the claim is lost. `closed`: the task
   * has ended. After a lost acknowledgement, read on too: an agent event found there is of your own
   * batch.
   */
  append(claim: Claim, after: Seq, events: readonly AgentEvent[]): Promise<Seq>;
  /**
   * Releases a claim, so that a runner can claim the task immediately. The end of a run without a
   * further turn releases it, too.
   */
  release(claim: Claim): Promise<void>;
  /**
   * Reads the entries after a position, then new ones as they are committed, on any replica. Ends
   * after the final entry. Each reader has its own position and does not slow others. In a
   * compacted task the numbers stay the same, with gaps where entries were dropped. Throws
   * `not_found` without the task, and `invalid` for a position after its last entry.
   */
  read(task: string, after: Seq, options?: Abortable): Reading;
  /** Returns the task as it is committed, by any replica; undefined without the task. */
  get(task: string): Promise<Snapshot | undefined>;
  /**
   * Lists tasks by their last change of state, turns or questions, newest first; text of a run is
   * not such a change. A task that changes during the list moves to the front, so it never comes
   * twice and may be missed: list again with `changedAfter`.
   */
  list(query: TaskQuery): Items<Snapshot>;
  /** Counts the tasks that a list would yield, without reading them. */
  count(query: Omit<TaskQuery, 'after' | 'outline'>): Promise<number>;
  /**
   * Saves the position and data of a named reader, such as a push config and what it has delivered.
   * Without `data` the bookmark is deleted. It is deleted with its task.
   */
  bookmark(mark: Bookmark): Promise<void>;
  bookmarks(task?: string): AsyncIterable<Bookmark>;
  /**
   * Stores values with the claimed task, in one commit, to continue its work on any replica; a
   * value that is undefined is deleted. Throws `fenced` if the claim is lost, and `invalid` for a
   * key or value that cannot be stored. They are deleted with the task.
   */
  setValues(
    claim: Claim,
    values: readonly (readonly [key: string, value: unknown])[],
  ): Promise<void>;
  /** Yields the stored values of a task whose key starts with `prefix`, in the order of keys. */
  values(
    task: string,
    prefix: string,
    options?: Abortable,
  ): AsyncIterable<readonly [key: string, value: unknown]>;
  /**
   * Deletes or compacts ended tasks; returns how many. May run at any time, also on several
   * replicas. It works in small steps; a step that is under way at an abort may still be done.
   */
  prune(policy: PrunePolicy & Abortable): Promise<number>;
  /**
   * Says whether the store accepts writes and claims, for a readiness probe: by the last writes, or
   * by a small write if those are old or failed. Never rejects; resolves within `timeoutMs` (2 s).
   */
  health(options?: { readonly timeoutMs?: number }): Promise<LogHealth>;
  /**
   * Calls the listener after commits of any task, so that a list can be read again. Commits of
   * other replicas may be missed. Returns a function that stops it.
   */
  onCommit?(listener: () => void): () => void;
  /** Lists the replicas that share the log. Missing if a log cannot be shared. */
  replicas?(): Promise<readonly ReplicaInfo[]>;
}

/** The owners (or tenants, for tasks without an owner) that may have no further run for now. */
export interface LimitedOwners {
  names(): readonly string[];
  /** Calls the listener when an owner may have been removed. Returns a function that stops it. */
  onChange(listener: () => void): () => void;
}

/** Whether a log accepts writes and claims. */
export interface LogHealth {
  readonly ok: boolean;
  /** Since when writes or claims have failed, in Unix ms. */
  readonly failingSince?: number;
  /** The newest failure. Its text may name hosts and users of the database: do not publish it. */
  readonly failure?: Failure;
}

/**
 * A runner that shares the log, as of its last heartbeat. A runner that has ended is not listed;
 * one that crashed has a growing `beatAgeMs`.
 */
export interface ReplicaInfo {
  /** The name of its runner. */
  readonly worker: string;
  readonly host: string;
  readonly pid: number;
  /** Unix ms. */
  readonly since: number;
  readonly beatAgeMs: number;
  /** Whether it is this process. */
  readonly here: boolean;
  /** How many tasks it has claimed. */
  readonly claims: number;
  /** The newest of these tasks, at most a hundred. */
  readonly tasks: readonly ReplicaTask[];
}

export interface ReplicaTask {
  readonly task: string;
  readonly agent: string;
  /** Empty without an owner. */
  readonly owner: string;
  readonly state: TaskState;
  /** How long its claim lives without another heartbeat; negative if another runner may take it. */
  readonly leaseMs: number;
}

/** One reader of a task: an async iterator over its entries. */
export interface Reading extends AsyncIterableIterator<Entry, void, undefined> {
  /**
   * Returns the next entry if it is in memory, so that the entries of one commit need no wait each.
   * Undefined does not mean the end: call `next` for the next entry, the end or an error.
   */
  take(): Entry | undefined;
}

export interface PrunePolicy {
  /** Delete tasks that ended before this time (Unix ms), with their bookmarks and blobs. */
  readonly tasksEndedBefore?: number;
  /** Of tasks that ended before this time, delete the deltas that their `*.end` repeats. */
  readonly deltasEndedBefore?: number;
}

/** The options of every log, whatever its store. */
export interface LogOptions {
  /**
   * How often claims are renewed and, if commits are not announced, notes are read; 5 s by default.
   */
  readonly heartbeatMs?: number;
  /** How long a claim lives without renewal; four heartbeats by default. */
  readonly leaseMs?: number;
  /**
   * How long the claim holder of a run has to end it after a cancel was requested here; 10 s by
   * default. It must be longer than the `graceMs` of the runner, after which the runner abandons an
   * agent that ignores its signal.
   */
  readonly cancelTimeoutMs?: number;
  /** How often runners look for expired claims and, if commits are not announced, readers poll. */
  readonly pollMs?: number;
  /**
   * How many tasks of one owner (or tenant, for tasks without an owner) may wait for a runner; a
   * further one is refused with `overloaded`. 10,000 by default. With replicas the limit is not
   * exact.
   */
  readonly maxQueuedPerOwner?: number;
  /**
   * Whether the same message id of one owner, tenant and agent is the same turn; true by default.
   */
  readonly dedupe?: boolean;
  /**
   * Gets the first failure of the store and its recovery. By default they become warnings of the
   * process, which Node prints to stderr.
   */
  readonly logger?: Logger;
  /** Deletes the bytes of each task that is pruned, or evicted by `keepEnded`. */
  readonly blobs?: { removeTask(task: string): Promise<void> };
}

/**
 * Selects the tasks that match every member. An empty owner or tenant matches tasks without one.
 */
export interface TaskFilter {
  readonly agent?: string;
  readonly owner?: string;
  /** The tenant of the task's first turn. */
  readonly tenant?: string;
  readonly context?: string;
  readonly state?: TaskState;
  /** Selects tasks that changed after this time (Unix ms). */
  readonly changedAfter?: number;
}

/** A filter of tasks, with the options of a list. */
export interface TaskQuery extends TaskFilter, ListOptions {
  /**
   * Omits text, artifacts, calls and history, and of the messages all but the start of the first.
   * So a list costs only what it shows, however long its tasks are.
   */
  readonly outline?: boolean;
}

/** A value that an agent keeps with its task, as JSON. */
export interface StoredValue {
  readonly key: string;
  readonly value: string;
}

/** The saved position and data of a named reader of a task. */
export interface Bookmark {
  readonly task: string;
  readonly name: string;
  readonly after: Seq;
  readonly data?: JsonObject;
}

/**
 * The exclusive right to append to a task, and a subscription to notes of others. The log renews
 * the lease while the process runs; `signal` aborts with `fenced` when the claim is lost.
 */
export interface Claim {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
  readonly signal: AbortSignal;
  /**
   * Calls the listener with each note that others have appended since `snapshot`: first with those
   * that have arrived already, then with each new one. A claim has one listener.
   */
  onNote(listener: (note: Entry & Note) => void): void;
}

/**
 * Claims tasks, recovers interrupted runs, and runs agents. Disposing it drains: waiting and
 * resumable runs are suspended, others get `graceMs` to end.
 */
export interface Runner extends AsyncDisposable {
  /**
   * Submits a turn; it is durable when this resolves. It runs here if there is room, else where it
   * is claimed. A server with `maxRuns: 0` only submits.
   */
  submit(turn: Turn): Promise<Entry>;
}

/** Answers that were refused before they became a turn, for example for a task of another owner. */
export interface RefusedAnswers extends Pick<Turn, 'agent' | 'owner'> {
  /** As the caller named it: it may be a task of another owner, or not exist. */
  readonly task?: string | undefined;
  /** The conversation, if no task was named. */
  readonly context?: string | undefined;
  readonly messageId?: string | undefined;
  readonly answers: readonly {
    /** Empty for text that names no question. */
    readonly id: string;
    readonly action?: Answer['action'] | undefined;
    readonly content?: unknown;
  }[];
}

/** Gets answers that were refused before a runner got them, and why. Never rejects. */
export type OnRefusedAnswers = (refused: RefusedAnswers, error: unknown) => Promise<void>;

export interface RunnerOptions {
  readonly log: TaskLog;
  readonly agents: Readonly<Record<string, Agent>>;
  /**
   * How many runs may be busy at the same time; further tasks wait in the log. 100 by default. A
   * run that waits for a person does not count, and goes on immediately when the answer comes; when
   * ten times as many wait, further ones are suspended. With 0 the runner only submits.
   */
  readonly maxRuns?: number;
  /**
   * How many of these runs one owner may have here, so that an owner with many tasks leaves room
   * for others; half of `maxRuns` by default. A run that waits for a person counts until it is
   * suspended, which is immediately if its owner has no room. Tasks without an owner and tenant are
   * not limited.
   */
  readonly maxRunsPerOwner?: number;
  /**
   * Whether a task that is submitted here waits in the log like any other, in the order of claims,
   * instead of starting immediately if there is room. False by default.
   */
  readonly queue?: boolean;
  /**
   * How long a stopped agent has to end, and a run has to finish at drain; 5 s by default. It must
   * be less than `cancelTimeoutMs` of the log.
   */
  readonly graceMs?: number;
  /**
   * How long a run may wait for a person in memory. After that it is suspended: its agent is
   * stopped, which frees process and memory, and called again with the answer. 5 s by default;
   * with 0 every wait is suspended.
   */
  readonly suspendAfterMs?: number;
  /**
   * How many characters of text and artifacts a run may have in memory; beyond it the run fails
   * with `too_large`. 32 Mi by default. Put larger results into a `BlobStore`, and send their URL.
   */
  readonly maxRunChars?: number;
  /**
   * How many characters all runs of this runner may have in memory; a sixteenth of the heap limit
   * by default. Above half of it no further run starts here; beyond it a run fails with
   * `overloaded`.
   */
  readonly maxTotalChars?: number;
  /**
   * How long a run may take, without waits for a person; then it fails with `timeout`. No default.
   */
  readonly timeoutMs?: number;
  /**
   * How often the agent of a crashed run is called again before the run fails, so that it does not
   * crash one replica after the other. 10 by default.
   */
  readonly maxAttempts?: number;
  /** Makes the addresses of `ctx.eventUrl`. `serve` has one. */
  readonly eventUrl?: EventUrls;
  /** The name of the runner in the store; made of host, process and a random part by default. */
  readonly name?: string;
  /** By default warnings and errors become warnings of the process, which Node prints to stderr. */
  readonly logger?: Logger;
  /** Observes the runs of this process, for metrics and traces. */
  readonly observer?: RunObserver;
}

/** An event from outside that a task waits for. */
export interface AwaitedEvent {
  readonly task: string;
  /** `messageId` of the turn whose run waits. */
  readonly turn: string;
  /** The id of `waitFor`. */
  readonly id: string;
}

/** Returns the signed address to which an event can be posted. */
export type EventUrls = (
  target: AwaitedEvent,
  options?: { readonly expiresInMs?: number },
) => string;

/** Observes runs as they happen, in order and synchronously. It must be fast and must not throw. */
export interface RunObserver {
  /** A turn is about to be submitted here; where it runs is not known yet. */
  submitted?(turn: Turn): void;
  /** An agent is about to be called here for this turn. */
  run(turn: Turn, task: Snapshot): RunListener;
}

/** Observes one run. */
export interface RunListener {
  /** The trace context of the agent, instead of the one that came with the turn. */
  readonly trace?: AgentContext['trace'];
  /** Called with each valid event before it is written, and with a cancel request. */
  onEvent(event: TaskEvent): void;
  /** Called when the run is over here: it has ended, is suspended, or lost its claim. */
  onEnd(): void;
}
