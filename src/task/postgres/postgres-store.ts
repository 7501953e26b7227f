import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { DuolaneError } from '../../errors.ts';
import { addListener } from '../../stream/cancellable-generator.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { WakeupBus } from './wakeup-bus.ts';
import { postgresBus } from './listen-notify-bus.ts';
import { PgConnections, type PgPool } from './connections.ts';
import { appendSubject, type CallSubject, GroupCommit, submitSubject } from './group-commit.ts';
import { headOf, HeadCache, type PgHead } from './head-cache.ts';
import { ReadQueries } from './read-queries.ts';
import { Suspects } from './expired-claims.ts';
import { steadyNow } from '../steady-clock.ts';
import { decodeBeat, decodeClaim, decodeHeadRow, decodeReplica } from './row-decoders.ts';
import { migrate } from './schema.ts';
import { type Sql, statements } from './sql.ts';
import { notifyAll } from '../process-warnings.ts';
import { isDamage } from '../store/page-builder.ts';
import type { Commit, DamagedTask, Store, StoreCalls } from '../store/store.ts';
import { lostClaim, type TaskRules } from '../store/task-rules.ts';
import type { ReplicaInfo } from '../types.ts';

export interface PgStoreOptions {
  readonly schema: string;
  readonly answerMs: number;
  readonly pollMs: number;
  readonly maxRunsPerParty: number;
  readonly bus?: WakeupBus | undefined;
}

const LOCKED_RETRY_MS = 50;
const SHOWN_TASKS = 100;
/** How often a replica with work to claim looks for claims whose holder is gone. */
const SUSPECT_MS = 1000;
/** For so many parties, the replica remembers in which order it served them. */
const SERVED_PARTIES = 256;

/** Opens one replica's store. Creates the tables, or brings them up to date. */
export async function openPostgresStore(
  pool: PgPool,
  close: () => Promise<void>,
  options: PgStoreOptions,
): Promise<Store> {
  const connections = new PgConnections(pool, options.answerMs);
  try {
    await migrate(connections, options.schema);
  } catch (error) {
    await connections.close();
    await close();
    throw error;
  }
  return new PostgresStore(connections, close, options);
}

class PostgresStore implements Store {
  readonly announcesAll = false;
  readonly #connections: PgConnections;
  readonly #closePool: () => Promise<void>;
  readonly #sql: Sql;
  readonly #heads: HeadCache;
  readonly #reads: ReadQueries;
  readonly #group: GroupCommit;
  readonly #bus: WakeupBus;
  readonly #channel: string;
  readonly #sender = `${randomUUID().slice(0, 8)}\n`;
  readonly #maxRunsPerParty: number;
  readonly #listeners = new Set<(commit: Commit) => void>();
  readonly #gapListeners = new Set<() => void>();
  readonly #workers = new Set<string>();
  readonly #suspects = new Suspects();
  /** The parties that this replica has claimed for, the last one last. */
  #served: readonly string[] = [];
  readonly #presenceTimer: NodeJS.Timeout;
  #closed: Promise<void> | undefined;

  constructor(connections: PgConnections, close: () => Promise<void>, options: PgStoreOptions) {
    const { schema, bus, pollMs } = options;
    this.#connections = connections;
    this.#closePool = close;
    this.#sql = statements(schema);
    this.#heads = new HeadCache(this.#sql.load);
    this.#reads = new ReadQueries(connections, this.#sql, schema, this.#heads);
    this.#channel = bus ? '' : schema;
    this.#bus =
      bus ??
      postgresBus({
        connect: () => connections.connect(),
        channel: schema,
        checkMs: options.answerMs,
      });
    this.#maxRunsPerParty = options.maxRunsPerParty;
    this.#group = new GroupCommit(connections, this.#sql, this.#heads, {
      channel: this.#channel,
      sender: this.#sender,
      onCommits: (commits, notices) => this.#committed(commits, notices),
    });
    this.#bus.subscribe({ message: (text) => this.#onMessage(text), gap: () => this.#gap() });
    this.#presenceTimer = setInterval(() => {
      this.#present().catch(reportUnexpected);
    }, pollMs).unref();
  }

  onCommit(listener: (commit: Commit) => void): () => void {
    return addListener(this.#listeners, listener);
  }

  onGap(listener: () => void): () => void {
    return addListener(this.#gapListeners, listener);
  }

  submit: StoreCalls['submit'] = async (request) => {
    if (request.worker !== undefined) this.#addWorker(request.worker);
    return await this.#grouped(submitSubject(request), (rules) => rules.submit(request));
  };

  cancel: StoreCalls['cancel'] = async (task, note, force) =>
    this.#grouped({ task, bytes: 0 }, (rules) => rules.cancel(task, note, force));

  append: StoreCalls['append'] = async (request) =>
    this.#grouped(appendSubject(request), (rules) => rules.append(request));

  release: StoreCalls['release'] = async (task, epoch) =>
    this.#grouped({ task, bytes: 0 }, (rules) => rules.release(task, epoch));

  claim: StoreCalls['claim'] = async (worker, agents, leaseMs, except = []) => {
    const damaged: DamagedTask[] = [];
    for (;;) {
      const found = await this.#claim(worker, agents, leaseMs, except);
      if (!('reason' in found)) return damaged.length > 0 ? { ...found, damaged } : found;
      // Its claim expires unnoticed here, so a replica that can read it, such as a newer one, gets
      // it.
      this.#suspects.ignore(found.task);
      damaged.push(found);
    }
  };

  /** Returns the result of `claim`, or a task that was claimed and cannot be read. */
  async #claim(
    worker: string,
    agents: readonly string[],
    leaseMs: number,
    except: readonly string[],
  ): Promise<Awaited<ReturnType<StoreCalls['claim']>> | DamagedTask> {
    this.#check();
    this.#addWorker(worker);
    if (!this.#suspects.isFresh(SUSPECT_MS, steadyNow())) await this.#look(agents, leaseMs);
    if (this.#suspects.takeDue(steadyNow())) await this.#connections.read(this.#sql.due, [agents]);
    const dead = this.#suspects.dead(steadyNow());
    const [row] = await this.#connections.read(this.#sql.claim, [
      worker,
      agents,
      leaseMs,
      this.#maxRunsPerParty,
      this.#channel,
      this.#sender,
      this.#served,
      except,
      dead.map(({ task }) => task),
      dead.map(({ epoch }) => epoch),
      dead.map(({ leaseUntil }) => leaseUntil),
    ]);
    const { task: id, party, free, notices } = decodeClaim(row);
    if (row === undefined || id === undefined) {
      // Another replica is claiming the free tasks at this moment.
      if (free > 0) return { retryInMs: LOCKED_RETRY_MS };
      await this.#look(agents, leaseMs);
      const retryInMs = this.#suspects.nextMs(steadyNow());
      return retryInMs === undefined ? {} : { retryInMs };
    }
    this.#served = [...this.#served.filter((name) => name !== party), party].slice(-SERVED_PARTIES);
    let head: PgHead;
    try {
      head = headOf({ ...decodeHeadRow(row), worker, leaseMs });
    } catch (error) {
      if (!isDamage(error)) throw error;
      return { task: id, reason: String(error) };
    }
    this.#heads.keep(head.task, head);
    const { task, epoch, snapshot } = head;
    const commit = { task, epoch, claimed: true, rows: [], head: snapshot.seq, ended: false };
    this.#committed([{ ...commit, claimable: false }], notices);
    return { claim: { task, epoch, snapshot } };
  }

  async #look(agents: readonly string[], leaseMs: number): Promise<void> {
    const [row] = await this.#connections.read(this.#sql.suspects, [agents]);
    this.#suspects.see(row, leaseMs, steadyNow());
  }

  beat: StoreCalls['beat'] = async (claims, leaseMs) => {
    this.#check();
    return this.#group.alone(async () => {
      const tasks = claims.map(({ task }) => task);
      const epochs = claims.map(({ epoch }) => epoch);
      const rows = await this.#connections.write(this.#sql.beat, [tasks, epochs, leaseMs]);
      const found = new Map(rows.map((row) => [String(row['id']), row]));
      return tasks.map((task) => {
        const row = found.get(task);
        if (!row) return { task, claim: 'lost', head: 0 } as const;
        const { claim, head, rev } = decodeBeat(row);
        if (rev !== undefined) this.#heads.renewed(task, rev, leaseMs);
        return { task, claim, head };
      });
    });
  };

  read: StoreCalls['read'] = async (task, after) => this.#open().read(task, after);
  heads: StoreCalls['heads'] = async (tasks) => this.#open().heads(tasks);
  get: StoreCalls['get'] = async (task) => this.#open().get(task);
  page: StoreCalls['page'] = async (request) => this.#open().page(request);
  count: StoreCalls['count'] = async (filter) => this.#open().count(filter);
  bookmarks: StoreCalls['bookmarks'] = async (task, after) => this.#open().bookmarks(task, after);
  values: StoreCalls['values'] = async (task, prefix, after) =>
    this.#open().values(task, prefix, after);
  ended: StoreCalls['ended'] = async (before) => this.#open().ended(before);

  bookmark: StoreCalls['bookmark'] = async ({ task, name, after, data }) => {
    this.#check();
    const found =
      data === undefined
        ? await this.#connections.read(this.#sql.unbookmark, [task, name])
        : await this.#connections.read(this.#sql.bookmark, [
            task,
            name,
            after,
            JSON.stringify(data),
          ]);
    if (found.length === 0)
      throw new DuolaneError('not_found', `task "${task}" not found; it may have been pruned`);
  };

  setValues: StoreCalls['setValues'] = async ({ task, epoch }, values) => {
    this.#check();
    // One statement may change a row once, so of several changes of one key the last one counts.
    const last = new Map(values.map(({ key, value }) => [key, value]));
    const set = [...last].filter(([, value]) => value !== undefined);
    const claims = await this.#connections.read(this.#sql.setValues, [
      task,
      epoch,
      set.map(([key]) => key),
      set.map(([, value]) => value),
      [...last].filter(([, value]) => value === undefined).map(([key]) => key),
    ]);
    if (claims.length === 0) throw lostClaim(task);
  };

  remove: StoreCalls['remove'] = async (tasks) => {
    this.#check();
    await this.#connections.read(this.#sql.remove, [tasks]);
    for (const task of tasks) this.#heads.forget(task);
  };

  compact: StoreCalls['compact'] = async (before) => {
    let count = 0;
    for await (const { task, rows } of this.#open().compactable(before)) {
      await this.#connections.read(this.#sql.compact, [task, rows]);
      count++;
    }
    return count;
  };

  // Runs on the connection that writes. A read-only database refuses even an update of no row.
  probe: StoreCalls['probe'] = async () => {
    await this.beat([], 1);
    if (this.#workers.size > 0) await this.#connections.read(this.#sql.present, this.#presence());
  };

  async replicas(): Promise<readonly ReplicaInfo[]> {
    this.#check();
    const rows = await this.#connections.read(this.#sql.replicas, [SHOWN_TASKS]);
    return rows.map((row) => {
      const replica = decodeReplica(row);
      return { ...replica, here: this.#workers.has(replica.worker) };
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  /** Closes the store after the calls that were made before. */
  async #close(): Promise<void> {
    clearInterval(this.#presenceTimer);
    await this.#group.idle();
    if (this.#workers.size > 0)
      // The rows of absent workers expire.
      await this.#connections.read(this.#sql.absent, [[...this.#workers]]).catch(() => {});
    await this.#bus[Symbol.asyncDispose]();
    await this.#connections.close();
    await this.#closePool();
  }

  async #grouped<T>(subject: CallSubject, apply: (rules: TaskRules) => T): Promise<T> {
    this.#check();
    return await this.#group.call(subject, apply);
  }

  #open(): ReadQueries {
    this.#check();
    return this.#reads;
  }

  #check(): void {
    if (this.#closed) throw new DuolaneError('closed', 'the log is closed; open a new one');
  }

  #committed(commits: readonly Commit[], notices: readonly string[]): void {
    for (const commit of commits) this.#announce(commit);
    if (this.#channel === '') for (const text of notices) this.#bus.publish(this.#sender + text);
  }

  #onMessage(text: string): void {
    // The commits of this replica were announced with their rows when they were made.
    if (text.startsWith(this.#sender)) return;
    for (const line of text.split('\n').slice(1)) {
      const commit = parseCommitNotice(line);
      if (commit) this.#announce(commit);
      else this.#gap();
    }
  }

  // With a limit for each party, every run that ends may make room for another task.
  #announce(commit: Commit): void {
    const hasRoom = this.#maxRunsPerParty < Number.MAX_SAFE_INTEGER && !commit.claimed;
    notifyAll(this.#listeners, hasRoom ? { ...commit, claimable: true } : commit);
  }

  #gap(): void {
    notifyAll(this.#gapListeners, undefined);
  }

  #addWorker(worker: string): void {
    if (this.#workers.has(worker)) return;
    this.#workers.add(worker);
    this.#present().catch(reportUnexpected);
  }

  // Only for the list of replicas; a claim does not depend on it.
  async #present(): Promise<void> {
    if (this.#workers.size === 0 || this.#closed) return;
    // After a failure the next interval writes it again; until then the row is older.
    await this.#connections.read(this.#sql.present, this.#presence()).catch(() => {});
  }

  #presence(): readonly unknown[] {
    return [[...this.#workers], hostname(), process.pid];
  }
}

/**
 * Parses a notice. Undefined if it cannot be read: a newer version sent it, or the id was too long.
 */
function parseCommitNotice(line: string): Commit | undefined {
  try {
    const notice: unknown = JSON.parse(line);
    if (!Array.isArray(notice)) return undefined;
    const [task, epoch, claimed, head, ended, claimable] = notice as unknown[];
    return {
      task: String(task),
      epoch: Number(epoch),
      claimed: claimed === true,
      rows: [],
      head: Number(head),
      ended: ended === true,
      claimable: claimable === true,
    };
  } catch {
    // The caller treats it as a gap, and readers look again.
    return undefined;
  }
}
