import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import { sleep } from '../../stream/abort.ts';
import { numberLine } from '../store/line-codec.ts';
import { isDamage } from '../store/page-builder.ts';
import { TaskRules } from '../store/task-rules.ts';
import { decodeEntryRow, decodeWritten } from './row-decoders.ts';
import { WriteBatch, type KnownTurn, type PreparedWrite } from './write-batch.ts';
import { isRefused, type PgConnections, sqlState } from './connections.ts';
import type { HeadCache, PgHead } from './head-cache.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import type { Sql } from './sql.ts';
import type { AppendRequest, Commit, SubmitRequest } from '../store/store.ts';
import { turnKeyOf, type TurnKey, turnKeyText } from '../store/storage-engine.ts';

/** What a call is about. */
export interface CallSubject {
  readonly task: string;
  /** The key of a submitted turn. */
  readonly turn?: TurnKey | undefined;
  /** Of a submit: the party of the task, and how many of its tasks may wait. */
  readonly party?: string | undefined;
  readonly maxQueued?: number | undefined;
  readonly bytes: number;
}

interface GroupedCall extends CallSubject {
  /** Applies the rules. Returns what settles the caller once the commit is durable. */
  readonly attempt: (rules: TaskRules) => () => void;
  readonly reject: (error: unknown) => void;
}

interface AttemptedCall {
  readonly call: GroupedCall;
  /** The tasks that the decision depends on. */
  readonly consulted: ReadonlySet<string>;
  readonly settle: () => void;
}

// Larger groups were slower for each event.
const MAX_CALLS = 128;
const MAX_BYTES = 4 << 20;
const MAX_ROUNDS = 20;
/** How old a count of waiting tasks may be. */
const COUNT_MS = 1000;
/** Larger writes are not prepared: a prepared plan is made for few rows, and joins many slowly. */
const PREPARED_TASKS = 50;

/** Two replicas created the same row, or waited for each other: the loser reads again. */
const LOST_RACE = new Set(['23505', '40P01', '40001']);

export interface GroupOptions {
  /** The channel that PostgreSQL notifies; empty when another bus does. */
  readonly channel: string;
  readonly sender: string;
  /**
   * Called with the commits, in order, before their calls resolve, and the notices for replicas.
   */
  readonly onCommits: (commits: readonly Commit[], notices: readonly string[]) => void;
}

/**
 * Group commit for a process: calls that are made during a commit go into the next one, as one
 * statement. The rules are applied here, to tasks as they were last seen, and the statement
 * compares revisions: a task that another replica has written meanwhile is read again, and its
 * calls are decided again. So no row is locked while the rules run, and a refusal always depends on
 * what the database has.
 */
export class GroupCommit {
  readonly #connections: PgConnections;
  readonly #sql: Sql;
  readonly #heads: HeadCache;
  readonly #options: GroupOptions;
  #queue: GroupedCall[] = [];
  readonly #counts = new LruCache<string, { readonly at: number; queued: number }>(2000);
  #between: (() => Promise<void>)[] = [];
  #running: Promise<void> | undefined;

  constructor(connections: PgConnections, sql: Sql, heads: HeadCache, options: GroupOptions) {
    this.#connections = connections;
    this.#sql = sql;
    this.#heads = heads;
    this.#options = options;
  }

  /** Applies the rules to a task in the next commit. Settles when that is durable. */
  call<T>(subject: CallSubject, apply: (rules: TaskRules) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const attempt = (rules: TaskRules): (() => void) => {
        try {
          const value = apply(rules);
          return () => resolve(value);
        } catch (error) {
          return () => reject(error);
        }
      };
      this.#queue.push({ ...subject, attempt, reject });
      this.#running ??= this.#run();
    });
  }

  /** Runs the work between two commits, alone on the connection that writes. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#between.push(() => work().then(resolve, reject));
      this.#running ??= this.#run();
    });
  }

  /** Resolves when all calls are settled. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // Calls of the same tick go into the same commit.
    await Promise.resolve();
    while (this.#queue.length > 0 || this.#between.length > 0) {
      await this.#between.shift()?.();
      const calls = this.#take();
      if (calls.length > 0) await this.#commit(calls);
    }
    this.#running = undefined;
  }

  #take(): GroupedCall[] {
    let bytes = 0;
    const stop = this.#queue.findIndex(
      (call, index) => index === MAX_CALLS || (bytes += call.bytes) > MAX_BYTES,
    );
    // One call may be larger than the limit of all.
    return this.#queue.splice(0, stop === -1 ? this.#queue.length : Math.max(1, stop));
  }

  async #commit(calls: readonly GroupedCall[]): Promise<void> {
    let remaining = calls;
    try {
      let doubted: ReadonlySet<string> = new Set<string>();
      for (let round = 0; remaining.length > 0; round++) {
        if (round === MAX_ROUNDS)
          throw new DuolaneError(
            'server',
            `cannot write: other replicas changed the tasks in ${MAX_ROUNDS} attempts; try again`,
          );
        if (round > 2) await sleep(Math.random() * 5 * round);
        remaining = await this.#round(remaining, doubted);
        doubted = new Set(remaining.map(({ task }) => task));
      }
    } catch (error) {
      for (const { task } of remaining) this.#heads.forget(task);
      // PostgreSQL refused one of them. Alone, each of the others gets its own result.
      if (remaining.length > 1 && isRefusal(error))
        for (const call of remaining) await this.#commit([call]);
      else for (const { reject } of remaining) reject(error);
    }
  }

  /** Attempts all calls once. Returns those that have to be decided again. */
  async #round(
    calls: readonly GroupedCall[],
    doubted: ReadonlySet<string>,
  ): Promise<readonly GroupedCall[]> {
    const heads = new Map<string, PgHead>();
    const stale = new Set<string>();
    for (const { task } of calls) {
      const guess = doubted.has(task) ? undefined : this.#heads.guess(task);
      if (guess) heads.set(task, guess);
      else stale.add(task);
    }
    const ask = this.#connections.write.bind(this.#connections);
    if (stale.size > 0)
      for (const [task, head] of await this.#heads.fresh([...stale], ask)) heads.set(task, head);
    for (const task of stale) this.#heads.keep(task, heads.get(task));
    await this.#count(calls.filter(({ task }) => !heads.has(task)));
    const batch = new WriteBatch(heads, await this.#knownTurns(calls), (party) =>
      this.#queued(party),
    );
    const rules = new TaskRules(batch);
    const attempted = calls.map((call): AttemptedCall => {
      batch.begin();
      const settle = call.attempt(rules);
      return { call, consulted: batch.consulted, settle };
    });
    const done = await this.#write(batch, rules.takeCommits());
    if (!done) return calls;
    // A call settles if each task it depends on was read just now, or compared in this commit.
    const holds = (task: string): boolean => (batch.has(task) ? done.has(task) : stale.has(task));
    const again: GroupedCall[] = [];
    for (const { call, consulted, settle } of attempted) {
      if ([...consulted].every(holds)) settle();
      else again.push(call);
    }
    return again;
  }

  /** Writes the batch. Returns the tasks that were written; undefined if all of it lost a race. */
  async #write(batch: WriteBatch, commits: readonly Commit[]): Promise<Set<string> | undefined> {
    if (batch.size === 0) return new Set();
    const { channel, sender, onCommits } = this.#options;
    const prepared = batch.prepare(channel, sender);
    try {
      const { write } = this.#sql;
      const statement = batch.size > PREPARED_TASKS ? { text: write.text } : write;
      const [row] = await this.#connections.write(statement, prepared.values);
      const { written, notices } = decodeWritten(row);
      const done = this.#keep(prepared, written);
      onCommits(
        commits.filter(({ task }) => done.has(task)),
        notices,
      );
      return done;
    } catch (error) {
      if (LOST_RACE.has(sqlState(error) ?? '')) return undefined;
      throw error;
    }
  }

  #keep({ heads }: PreparedWrite, numbers: readonly number[]): Set<string> {
    const done = new Set<string>();
    for (const number of numbers) {
      const head = heads[number - 1] as PgHead;
      done.add(head.task);
      this.#heads.keep(head.task, head);
    }
    return done;
  }

  /**
   * Counts the waiting tasks of parties. A count may be a second old, plus what was submitted here
   * since: a limit on queues need not be exact.
   */
  async #count(calls: readonly GroupedCall[]): Promise<void> {
    const now = performance.now();
    let most = 0;
    const parties = new Set<string>();
    for (const { party, maxQueued = Infinity } of calls) {
      if (party === undefined || maxQueued === Infinity) continue;
      most = Math.max(most, maxQueued);
      if ((this.#counts.peek(party)?.at ?? -Infinity) < now - COUNT_MS) parties.add(party);
    }
    if (parties.size === 0) return;
    for (const row of await this.#connections.write(this.#sql.queued, [[...parties], most]))
      this.#counts.set(String(row['name']), { at: now, queued: Number(row['queued']) });
  }

  #queued(party: string): number {
    const count = this.#counts.get(party);
    return count ? count.queued++ : 0;
  }

  async #knownTurns(calls: readonly GroupedCall[]): Promise<Map<string, KnownTurn>> {
    const keys = calls.flatMap(({ turn }) => turn ?? []);
    if (keys.length === 0) return new Map();
    const rows = await this.#connections.write(this.#sql.turns, [
      keys.map(({ owner }) => owner),
      keys.map(({ agent }) => agent),
      keys.map(({ messageId }) => messageId),
    ]);
    return new Map(
      rows.map((row) => {
        const key = keys[Number(row['n']) - 1] as TurnKey;
        return [turnKeyText(key), { task: String(row['task']), row: decodeEntryRow(row) }];
      }),
    );
  }
}

/** The subject of an append. */
export const appendSubject = ({ task, events }: AppendRequest): CallSubject => ({
  task,
  bytes: events.reduce((bytes, event) => bytes + event.length, 0),
});

/** The subject of a submit: its task, its party and the key of its turn. */
export function submitSubject({ note, dedupe, maxQueued }: SubmitRequest): CallSubject {
  const entry = decodeEntry(numberLine(note, 1));
  if (entry.type !== 'turn.submitted')
    throw new DuolaneError('invalid', `cannot submit a ${entry.type}: expected turn.submitted`);
  const { turn } = entry;
  return {
    task: turn.task,
    bytes: note.length,
    party: turn.owner || (turn.tenant ?? ''),
    maxQueued,
    ...(dedupe && { turn: turnKeyOf(turn) }),
  };
}

const isRefusal = (error: unknown): boolean => isDamage(error) || isRefused(error);
