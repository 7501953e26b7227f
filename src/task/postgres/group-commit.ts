import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/index.ts';
import { sleep } from '../../stream/index.ts';
import { numberLine } from '../store/line-codec.ts';
import { isDamage } from '../store/page-builder.ts';
import { type WriteRules, writeRules } from '../store/store-rules.ts';
import { WriteBatch, type KnownTurn, type PreparedWrite, turnKey } from './write-batch.ts';
import { type PgConnections, sqlState } from './connections.ts';
import type { HeadCache, PgHead } from './head-cache.ts';
import { LruCache } from '../../stream/lru-cache.ts';
import type { Sql } from './sql.ts';
import { type Commit, callStoreMethod, type StoreMethods } from '../store/store.ts';
import { turnKeyOf, type TurnKey } from '../store/storage-engine.ts';

export type GroupMethod = 'submit' | 'cancel' | 'append' | 'release';

interface GroupedCall {
  readonly method: GroupMethod;
  readonly args: readonly unknown[];
  readonly task: string;
  readonly turn?: TurnKey | undefined;
  /** Of a submit: whose task it would be, and how many of theirs may wait. */
  readonly party?: string | undefined;
  readonly maxQueued?: number | undefined;
  readonly bytes: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Tried {
  readonly call: GroupedCall;
  readonly rests: ReadonlySet<string>;
  readonly settle: () => void;
}

// Larger groups were slower for each event, not faster.
const MAX_CALLS = 128;
const MAX_BYTES = 4 << 20;
const MAX_ROUNDS = 20;
/** How old a count of waiting tasks may be. */
const COUNT_MS = 1000;
/** A prepared plan is made for a few rows, and joins many of them pair by pair. */
const PREPARED_TASKS = 50;

/** Two replicas made the same thing, or waited for each other: the loser looks again. */
const LOST_RACE = new Set(['23505', '40P01', '40001']);

export interface GroupOptions {
  /** Where PostgreSQL notifies; empty when another bus does. */
  readonly channel: string;
  readonly sender: string;
  /** What was committed, in order, before the calls resolve. `news`: what other replicas are to hear. */
  readonly onCommits: (commits: readonly Commit[], news: readonly string[]) => void;
}

/**
 * Group commit for a whole process: what is called while a commit runs goes into the next, in one
 * statement. The rules are applied here, to tasks as they were last seen, and the statement compares:
 * a task that somebody else has written meanwhile is read again and its calls are decided anew. So
 * nothing is locked while we think, and a refusal always rests on what the database says.
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

  call(method: GroupMethod, args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ method, args, ...subjectOf(method, args), resolve, reject });
      this.#running ??= this.#run();
    });
  }

  /** Runs it between two commits, alone on the connection that writes. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#between.push(() => work().then(resolve, reject));
      this.#running ??= this.#run();
    });
  }

  /** Resolves when everything that was called is done. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // What is called in the same tick goes into the same commit.
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
    // One call may be larger than all of them should be.
    return this.#queue.splice(0, stop === -1 ? this.#queue.length : Math.max(1, stop));
  }

  async #commit(calls: readonly GroupedCall[]): Promise<void> {
    let left = calls;
    try {
      let doubted: ReadonlySet<string> = new Set<string>();
      for (let round = 0; left.length > 0; round++) {
        if (round === MAX_ROUNDS)
          throw new DuolaneError('server', 'the tasks change faster than they can be written');
        if (round > 2) await sleep(Math.random() * 5 * round);
        left = await this.#round(left, doubted);
        doubted = new Set(left.map(({ task }) => task));
      }
    } catch (error) {
      for (const { task } of left) this.#heads.forget(task);
      // PostgreSQL refused one of them; alone, each of the others gets its own answer.
      if (left.length > 1 && isRefusal(error)) for (const call of left) await this.#commit([call]);
      else for (const { reject } of left) reject(error);
    }
  }

  /** One attempt at all of them; gives back the calls that have to be decided anew. */
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
    const rules = writeRules(batch);
    const tried = calls.map((call) => attempt(rules, batch, call));
    const done = await this.#write(batch, rules.takeCommits());
    if (!done) return calls;
    // A call is answered when each task it rests on was read just now, or compared in this commit.
    const holds = (task: string): boolean => (batch.has(task) ? done.has(task) : stale.has(task));
    const again: GroupedCall[] = [];
    for (const { call, rests, settle } of tried) {
      if ([...rests].every(holds)) settle();
      else again.push(call);
    }
    return again;
  }

  /** The tasks that were written; undefined if the whole commit lost a race. */
  async #write(batch: WriteBatch, commits: readonly Commit[]): Promise<Set<string> | undefined> {
    if (batch.size === 0) return new Set();
    const { channel, sender, onCommits } = this.#options;
    const prepared = batch.prepare(channel, sender);
    try {
      const { write } = this.#sql;
      const statement = batch.size > PREPARED_TASKS ? { text: write.text } : write;
      const [row] = await this.#connections.write(statement, prepared.values);
      const done = this.#keep(prepared, row?.['done'] as readonly number[]);
      const news = (row?.['news'] as readonly string[] | null) ?? [];
      onCommits(
        commits.filter(({ task }) => done.has(task)),
        news,
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

  /** Up to a second old, and what was submitted here since: a limit on queues need not be exact. */
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
        const seq = Number(row['seq']);
        const entry = { seq, note: row['note'] === true, line: String(row['line']) };
        return [turnKey(key), { task: String(row['task']), row: entry }];
      }),
    );
  }
}

function attempt(rules: WriteRules, batch: WriteBatch, call: GroupedCall): Tried {
  batch.begin();
  let settle: () => void;
  try {
    const value: unknown = callStoreMethod(
      rules as unknown as StoreMethods,
      call.method,
      call.args,
    );
    settle = () => call.resolve(value);
  } catch (error) {
    settle = () => call.reject(error);
  }
  return { call, rests: batch.consulted, settle };
}

/** Which task a call is about, and for a turn, by which key it is known. */
function subjectOf(
  method: GroupMethod,
  [first]: readonly unknown[],
): Pick<GroupedCall, 'task' | 'turn' | 'party' | 'maxQueued' | 'bytes'> {
  if (method === 'append') {
    const { task, events } = first as Parameters<StoreMethods['append']>[0];
    return { task, bytes: events.reduce((bytes, event) => bytes + event.length, 0) };
  }
  if (method !== 'submit') return { task: String(first), bytes: 0 };
  const { note, dedupe, maxQueued } = first as Parameters<StoreMethods['submit']>[0];
  const entry = decodeEntry(numberLine(note, 1));
  if (entry.type !== 'turn.submitted')
    throw new DuolaneError('invalid', `a ${entry.type} is no turn`);
  const { turn } = entry;
  return {
    task: turn.task,
    bytes: note.length,
    party: turn.owner || (turn.tenant ?? ''),
    maxQueued,
    ...(dedupe && { turn: turnKeyOf(turn) }),
  };
}

// The statement was refused, or a task is damaged; a server that is lost would meet every call alike.
const isRefusal = (error: unknown): boolean =>
  isDamage(error) || /^(?!57|08|53)/.test(sqlState(error) ?? '57');
