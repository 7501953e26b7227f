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

/** Durable before visible. Agent events have one writer, the claim; notes may come from anyone. */
export interface TaskLog extends AsyncDisposable {
  /**
   * Appends `turn.submitted`, creating the task; a known messageId gives the entry that is there,
   * and is `invalid` in another task; `closed` after the end. A second answer to a question is a
   * `conflict` that names the first, and an answer to one that is not open is `invalid`; a new task
   * beyond `maxQueuedPerOwner` is `overloaded`. With `worker`, also claims the task in the same
   * commit if it is free.
   */
  submit(
    turn: Turn,
    options?: { readonly worker?: string },
  ): Promise<{ readonly entry: Entry; readonly claim?: Claim }>;
  /**
   * Appends `cancel.requested`, and the end too when there is no live claim. Twice is fine; `closed`
   * if ended otherwise. An owner that has not written the end after `cancelTimeoutMs` is fenced, and the
   * end is written without it.
   */
  requestCancel(task: string, reason?: string): Promise<Snapshot>;
  /**
   * Tasks that need a runner, claimed as they are pulled: unserved, answered, or with an expired
   * claim. In fair order by owner: the one with the fewest runs, then the one that was served
   * longest ago. Pull when you have room. `onIdle` is called whenever there is none to be claimed;
   * owners in `limited` get no claim now.
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
   * Atomic; `after` must be the head. `conflict`: a note slipped in; read on from `after` and
   * decide. `fenced`: the claim is lost. `closed`: ended. After a lost acknowledgement, read on
   * too: an agent event found there is one's own batch.
   */
  append(claim: Claim, after: Seq, events: readonly AgentEvent[]): Promise<Seq>;
  /** Hands an unfinished run back, claimable at once. The end of a run with no turn left releases by itself. */
  release(claim: Claim): Promise<void>;
  /**
   * Replay, then live tail, on any replica; ends after the final entry, at once if that was seen.
   * Each reader has its own place and slows no other. In a compacted task it starts with what is
   * there after `after`: numbers keep their meaning, and what is gone leaves gaps. `not_found`
   * without the task, `invalid` beyond its head.
   */
  read(task: string, after: Seq, options?: Abortable): Reading;
  /** What is committed, however it got there. */
  get(task: string): Promise<Snapshot | undefined>;
  /**
   * Newest change first: of state, turns, questions; what a run says in between is none. A task
   * that changes while it is listed moves to the front, so it is never given twice and may be
   * missed; ask again with `changedAfter`.
   */
  list(query: TaskQuery): Items<Snapshot>;
  /** How many tasks a list of them all would give, without reading one. */
  count(query: Omit<TaskQuery, 'after' | 'outline'>): Promise<number>;
  /**
   * A named reader's saved place and data, such as a push config and how far it got. No `data`:
   * deleted. Gone with its task.
   */
  bookmark(mark: Bookmark): Promise<void>;
  bookmarks(task?: string): AsyncIterable<Bookmark>;
  /**
   * How many tasks were deleted or compacted. Only ended tasks are touched; safe to run beside
   * everything else, and on several replicas. Works in small steps; an abort ends it between two.
   */
  prune(policy: PrunePolicy & Abortable): Promise<number>;
  /**
   * Whether the store accepts writes and claims, for a readiness probe: by the last writes, or by a
   * small write if those are old or failed. Never rejects; answers within `timeoutMs` (2 s).
   */
  health(options?: { readonly timeoutMs?: number }): Promise<LogHealth>;
  /** Who runs what, where several replicas share the log; otherwise there is no such method. */
  replicas?(): Promise<readonly ReplicaInfo[]>;
}

/** Owners, or tenants of tasks without an owner, that may have no further run for now. */
export interface LimitedOwners {
  names(): readonly string[];
  /** Calls the listener when there may be one less. Returns what stops that. */
  onChange(listener: () => void): () => void;
}

export interface LogHealth {
  readonly ok: boolean;
  /** Since when writes or claims fail, in Unix ms. */
  readonly failingSince?: number;
  /** The newest failure. Its text may name hosts and users of the database: log it, do not publish it. */
  readonly failure?: Failure;
}

/** A runner that shares the log, as it last told. One that has ended is gone, one that died grows old. */
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
  /** The newest of them, a hundred at most. */
  readonly tasks: readonly ReplicaTask[];
}

export interface ReplicaTask {
  readonly task: string;
  readonly agent: string;
  /** Empty if it has none. */
  readonly owner: string;
  readonly state: TaskState;
  /** How long its claim lives without another heartbeat; negative when somebody else may take it. */
  readonly leaseMs: number;
}

/** A task being read: a loop over its entries, for one reader. */
export interface Reading extends AsyncIterableIterator<Entry, void, undefined> {
  /**
   * The next entry if it is there: what one commit brought comes without a wait for each. Undefined
   * says only that the loop has to be asked: for what follows, for the end, or for what went wrong.
   */
  take(): Entry | undefined;
}

export interface PrunePolicy {
  /** Delete tasks that ended before this time (Unix ms), with their bookmarks and blobs. */
  readonly tasksEndedBefore?: number;
  /** Of tasks that ended before this time, delete the deltas that their `*.end` repeats. */
  readonly deltasEndedBefore?: number;
}

/** What every log takes, whatever it is stored in. */
export interface LogOptions {
  /** How often a claim is renewed, and, where commits are not announced, notes are looked for. */
  readonly heartbeatMs?: number;
  /** How long a claim lives without renewal; four heartbeats by default. */
  readonly leaseMs?: number;
  /**
   * How long the owner of a run has to end it after a cancel was requested here. Longer than the
   * `graceMs` of its runner, which leaves a deaf agent behind by itself; 10 s by default.
   */
  readonly cancelTimeoutMs?: number;
  /** How often runners look for dead claims, and, where commits are not announced, readers for entries. */
  readonly pollMs?: number;
  /**
   * How many tasks of one owner (or tenant, of tasks without an owner) may wait for a runner; a
   * further one is refused with `overloaded`. 10,000 by default; about that many with replicas.
   */
  readonly maxQueuedPerOwner?: number;
  /** Whether the same message id of one owner, tenant and agent is the same turn; true unless switched off. */
  readonly dedupe?: boolean;
  /**
   * Gets the first failure of the store and its recovery. By default failures are warnings of the
   * process, which Node prints on stderr.
   */
  readonly logger?: Logger;
  /** Asked to delete the bytes of each task that is pruned, or evicted by `keepEnded`. */
  readonly blobs?: { removeTask(task: string): Promise<void> };
}

/** Which tasks: those that match every member. An empty owner or tenant stands for tasks that have none. */
export interface TaskQuery extends ListOptions {
  readonly agent?: string;
  readonly owner?: string;
  readonly tenant?: string;
  readonly context?: string;
  readonly state?: TaskState;
  readonly changedAfter?: number;
  /**
   * For a list of tasks: without text, artifacts, calls and history, and of the messages only the
   * beginning of the first. Then a list costs what it shows, however long its tasks are.
   */
  readonly outline?: boolean;
}

export interface Bookmark {
  readonly task: string;
  readonly name: string;
  readonly after: Seq;
  readonly data?: JsonObject;
}

/**
 * The right to write a task, and the ear for it. The log keeps it alive while the process lives
 * (heartbeats are inside); `signal` aborts with `fenced` when it is lost; `notes` is what others
 * have written since `snapshot`.
 */
export interface Claim {
  readonly task: string;
  readonly epoch: number;
  readonly snapshot: Snapshot;
  readonly signal: AbortSignal;
  readonly notes: AsyncIterable<Entry & Note>;
  /**
   * Calls with each of those notes as it comes, those that were missed so far at once: for a holder
   * that does not want to wait in a loop. Use this or `notes`.
   */
  onNote(ear: (note: Entry & Note) => void): void;
}

/** Pulls claims, settles what died, runs agents. Disposing drains: waiting and resumable runs are suspended, others get `graceMs`. */
export interface Runner extends AsyncDisposable {
  /** Durable when it resolves. Runs here if there is room, else wherever it is claimed: a queue is a front with `maxRuns: 0`. */
  submit(turn: Turn): Promise<Entry>;
}

/** Answers that were refused before they became a turn. Whose task they were for may be all that is wrong with them. */
export interface RefusedAnswers extends Pick<Turn, 'agent' | 'owner'> {
  /** As the caller named it; it may be the task of another owner, or none. */
  readonly task?: string | undefined;
  /** The conversation, where no task was named. */
  readonly context?: string | undefined;
  readonly messageId?: string | undefined;
  readonly answers: readonly {
    /** Empty for words that name no question. */
    readonly id: string;
    readonly action?: Answer['action'] | undefined;
    readonly content?: unknown;
  }[];
}

/** Gets answers that were refused before a runner saw them, and why. Never rejects. */
export type OnRefusedAnswers = (refused: RefusedAnswers, error: unknown) => Promise<void>;

export interface RunnerOptions {
  readonly log: TaskLog;
  readonly agents: Readonly<Record<string, Agent>>;
  /**
   * How many runs at once; what is beyond waits in the log. A run that waits for a person is not
   * counted, and goes on at once when the answer comes; when ten times as many wait, the next ones
   * sleep. 0: a front that only submits.
   */
  readonly maxRuns?: number;
  /**
   * How many of these runs one owner may have here at a time, so that a caller with many tasks leaves
   * room for others; half of `maxRuns` by default. Tasks without an owner and tenant are not limited.
   */
  readonly maxRunsPerOwner?: number;
  /**
   * A task that is submitted here waits in the log like any other, in the order in which the log
   * gives claims, instead of starting at once where there is room.
   */
  readonly queue?: boolean;
  /** How long a stopped agent has to end by itself, and a run at drain to finish; less than the log's `cancelTimeoutMs`. */
  readonly graceMs?: number;
  /**
   * How long a run may stay alive waiting for a person; then its agent is stopped, which frees its
   * process and memory, and called again with the answer. 60 s by default; 0 makes every wait take
   * the restart path.
   */
  readonly suspendAfterMs?: number;
  /**
   * How many characters of text and artifacts a run may hold; a run beyond it fails with `too_large`.
   * 32 Mi by default. Put more behind a URL, in a `BlobStore`.
   */
  readonly maxRunChars?: number;
  /**
   * How many all runs of this runner may hold together; by default a sixteenth of the heap limit. From
   * half of it no further run begins here, and a run that goes beyond it fails with `overloaded`.
   */
  readonly maxTotalChars?: number;
  /** How long a run may take, waits for a person not counted; then it fails with `timeout`. */
  readonly timeoutMs?: number;
  /** How often a run that died is called again before it is failed, lest it kill every replica in turn. */
  readonly maxAttempts?: number;
  /** Who the claims are for, in the store; made up by default. */
  readonly name?: string;
  /** By default warnings and errors are warnings of the process, which Node prints on stderr. */
  readonly logger?: Logger;
  /** Hears the runs of this process, for metrics and traces. */
  readonly observer?: RunObserver;
}

/** Hears runs as they happen, in order and synchronously: it must be quick, and must not throw. */
export interface RunObserver {
  /** A turn is about to be submitted here; where it runs is not known yet. */
  submitted?(turn: Turn): void;
  /** An agent is about to be called here for this turn. */
  run(turn: Turn, task: Snapshot): RunListener;
}

export interface RunListener {
  /** What the agent gets as its trace, instead of what came with the turn. */
  readonly trace?: AgentContext['trace'];
  /** Each lawful event, before it is written; and a request to cancel. */
  onEvent(event: TaskEvent): void;
  /** The run is over here: it has ended, sleeps, or lost its claim. */
  onEnd(): void;
}
