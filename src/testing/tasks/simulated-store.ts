import { DuolaneError } from '../../errors.ts';
import { decodeEntry } from '../../event/entry-codec.ts';
import { needsRun } from '../../event/fold/advance.ts';
import type { Entry, Snapshot } from '../../event/types.ts';
import { MemoryStorage } from '../../task/memory/memory-storage.ts';
import { StoreRules } from '../../task/store/store-rules.ts';
import {
  callStoreMethod,
  type Commit,
  STORE_METHODS,
  type Store,
  storeFromCalls,
  type StoreMethods,
} from '../../task/store/store.ts';
import { disposeOnce } from '../../stream/dispose-once.ts';
import type { Random } from '../kernel/random.ts';
import type { Machine, World } from '../kernel/world.ts';

/** How the machines share the database. */
export type StoreSharing =
  /** As with PostgreSQL: any number of machines, commits of others are announced late or never. */
  | 'replicas'
  /** As with SQLite: one machine at a time, every commit is announced. */
  | 'alone';

/** A call that the plan makes fail: the n-th of its method, on any machine. */
export interface CallFault {
  readonly method: keyof StoreMethods;
  readonly nth: number;
  /** `drain`: its machine is drained while the call is under way. */
  readonly how: 'before' | 'after' | 'stall' | 'drain';
  readonly ms: number;
}

const server = (what: string): DuolaneError => new DuolaneError('server', what);

/**
 * The database: the real rules over the real storage in memory, on a machine of its own. It keeps
 * every entry that was committed, so that laws can be checked against it.
 */
export class SimulatedStore {
  readonly world: World;
  readonly machine: Machine;
  readonly sharing: StoreSharing;
  readonly entries: Map<string, Entry[]> = new Map();
  /** The machine that has claimed a task. */
  readonly holders: Map<string, Machine> = new Map();
  /** The entry by which each task was canceled. */
  readonly #cancels = new Map<string, number>();
  readonly #rules: StoreRules;
  readonly #connections = new Set<StoreConnection>();
  readonly #faults: readonly CallFault[];
  readonly #calls = new Map<string, number>();
  readonly #epochs = new Map<string, number>();
  /** Until when calls fail, and whether they fail or get no reply. */
  #downUntil = 0;
  /** When the last call that was held back has its reply. */
  stalledUntil = 0;
  onEntry: (entry: Entry, task: string) => void = () => {};
  /** Called when a machine gets to know that another one has its task. */
  onLost: (task: string, machine: Machine) => void = () => {};
  /** Drains a machine. */
  onDrain: (machine: Machine) => void = () => {};

  constructor(world: World, sharing: StoreSharing, faults: readonly CallFault[]) {
    this.world = world;
    this.sharing = sharing;
    this.machine = world.machine('db');
    this.#faults = faults;
    this.#rules = new StoreRules(new MemoryStorage(10_000, () => {}));
  }

  get isDown(): boolean {
    return this.world.now < this.#downUntil;
  }

  /** Refuses every call for so many ms, and cuts every connection. */
  goDown(ms: number): void {
    this.#downUntil = Math.max(this.#downUntil, this.world.now + ms);
    for (const connection of this.#connections) connection.cut(ms);
  }

  /** How many listeners the logs have left. */
  get listeners(): number {
    let count = 0;
    for (const connection of this.#connections) count += connection.listeners;
    return count;
  }

  connect(machine: Machine): StoreConnection {
    const connection = new StoreConnection(this, machine);
    this.#connections.add(connection);
    return connection;
  }

  disconnect(connection: StoreConnection): void {
    this.#connections.delete(connection);
  }

  of(machine: Machine): StoreConnection | undefined {
    for (const connection of this.#connections)
      if (connection.machine === machine) return connection;
    return undefined;
  }

  /** What is committed, as the omniscient see it. */
  get(task: string): Snapshot | undefined {
    return this.#rules.get(task);
  }

  /**
   * Whether a task was canceled and this machine cannot know it yet: a cancel ends the claim of a
   * task between two turns, and its notice takes as long as any other.
   */
  isCanceledUnseen(task: string, machine: Machine): boolean {
    const seq = this.#cancels.get(task);
    return seq !== undefined && (this.of(machine)?.noticed.get(task) ?? 0) < seq;
  }

  fault(method: keyof StoreMethods): CallFault | undefined {
    const nth = (this.#calls.get(method) ?? 0) + 1;
    this.#calls.set(method, nth);
    return this.#faults.find((fault) => fault.method === method && fault.nth === nth);
  }

  /** Runs a method in one transaction. Returns its commits, too. */
  execute(
    method: keyof StoreMethods,
    args: readonly unknown[],
    by: StoreConnection,
  ): { readonly value: unknown; readonly commits: readonly Commit[] } {
    const value = callStoreMethod(this.#rules, method, args);
    const commits = this.#rules.takeCommits();
    if (method === 'beat') this.#checkBeat(args[0] as readonly OldClaim[], value as BeatRow[]);
    for (const commit of commits) this.#keep(commit, by);
    for (const other of this.#connections)
      if (other !== by) for (const commit of commits) other.announce(commit);
    return { value, commits };
  }

  #checkBeat(claims: readonly OldClaim[], rows: readonly BeatRow[]): void {
    for (const [index, { task, claim }] of rows.entries())
      if (claim === 'held' && claims[index]?.epoch !== this.#epochs.get(task))
        this.world.broken('an old claim is not renewed', task);
  }

  #keep({ task, rows, epoch, claimed }: Commit, by: StoreConnection): void {
    let all = this.entries.get(task);
    if (!all) this.entries.set(task, (all = []));
    const before = this.#epochs.get(task) ?? 0;
    if (epoch < before)
      this.world.broken('an old claim writes nothing', `${task}: epoch ${epoch} after ${before}`);
    this.#epochs.set(task, epoch);
    if (!claimed) this.holders.delete(task);
    else if (epoch > before) {
      this.holders.set(task, by.machine);
      this.world.note(`claimed ${task} for ${by.machine.name}`);
    }
    for (const row of rows) {
      if (row.seq !== all.length + 1)
        this.world.broken('numbers have no gap', `${task}: ${row.seq} after ${all.length}`);
      const entry = decodeEntry(row.line);
      all.push(entry);
      if (entry.type === 'cancel.requested') this.#cancels.set(task, row.seq);
      this.world.note(`commit ${task} ${row.seq} ${entry.type}`);
      this.onEntry(entry, task);
    }
    const last = all.at(-1);
    const waits = rows.length > 0 && last?.type === 'run.suspended';
    if (waits && claimed && !needsRun(this.#rules.get(task) as Snapshot))
      this.world.broken('a task that waits has no claim', task);
  }
}

type OldClaim = Parameters<StoreMethods['beat']>[0][number];
type BeatRow = Awaited<ReturnType<StoreMethods['beat']>>[number];

interface Waiting {
  readonly reject: (error: unknown) => void;
}

/** The connection of one machine to the database: a `Store` with delays and faults. */
export class StoreConnection {
  readonly store: Store;
  readonly machine: Machine;
  readonly #db: SimulatedStore;
  readonly #random: Random;
  readonly #commitListeners = new Set<(commit: Commit) => void>();
  readonly #gapListeners = new Set<() => void>();
  readonly #waiting = new Set<Waiting>();
  /** Replies of writes, and announcements, arrive in order. */
  #lastReply = 0;
  #lastRequest = 0;
  #lastNotice = 0;
  #cutUntil = 0;
  closed = false;
  /** The last entry of each task that the machine was notified of. */
  readonly noticed: Map<string, number> = new Map();

  constructor(db: SimulatedStore, machine: Machine) {
    this.#db = db;
    this.machine = machine;
    this.#random = db.world.random(`connection of ${machine.name}`);
    const listen =
      <T>(listeners: Set<T>) =>
      (listener: T): (() => void) => {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      };
    const alone = db.sharing === 'alone';
    this.store = {
      ...storeFromCalls((method, args) => this.#call(method, args)),
      announcesAll: alone,
      ...(alone && { exclusive: true }),
      onCommit: listen(this.#commitListeners),
      onGap: listen(this.#gapListeners),
      [Symbol.asyncDispose]: disposeOnce(() => this.#close()),
    };
  }

  get listeners(): number {
    return this.#commitListeners.size + this.#gapListeners.size;
  }

  /** Fails every call that is under way. Later ones fail for so many ms; then there was a gap. */
  cut(ms: number): void {
    const { world } = this.#db;
    this.#cutUntil = Math.max(this.#cutUntil, world.now + ms);
    world.after(0, this.machine, 'connection cut', () => {
      for (const { reject } of this.#waiting) reject(server('the connection was cut'));
      this.#waiting.clear();
    });
    world.after(ms + this.#random.ms(0, 500), this.machine, 'connected again', () => {
      if (!this.closed) for (const listener of this.#gapListeners) listener();
    });
  }

  /** Announces a commit of another machine, without its rows. */
  announce(commit: Commit): void {
    const { world } = this.#db;
    // A lost notice is found by the next poll or heartbeat.
    if (world.now < this.#cutUntil || this.#random.chance(0.03)) return;
    const at = Math.max(this.#lastNotice, world.now + this.#delay());
    this.#lastNotice = at;
    const notice = { ...commit, rows: [] };
    world.at(at, this.machine, `notice ${commit.task}`, () => this.#notify(notice));
  }

  #notify(commit: Commit): void {
    if (this.closed) return;
    this.noticed.set(commit.task, Math.max(commit.head, this.noticed.get(commit.task) ?? 0));
    for (const listener of this.#commitListeners) listener(commit);
  }

  #delay(): number {
    return 0.05 + this.#random.next() ** 4 * 20;
  }

  #call(method: keyof StoreMethods, args: readonly unknown[]): Promise<unknown> {
    const { world, machine: database } = this.#db;
    if (this.closed) return Promise.reject(new DuolaneError('closed', 'the log was closed'));
    return new Promise((resolve, rejectCall) => {
      const waiting: Waiting = { reject: rejectCall };
      this.#waiting.add(waiting);
      const settle = (label: string, at: number, run: () => void): void => {
        world.at(at, this.machine, label, () => {
          if (this.#waiting.delete(waiting)) run();
        });
      };
      const isWrite = STORE_METHODS[method] === 'write';
      const fault = this.#db.fault(method);
      let sent = world.now + this.#delay() + (isDelayed(fault) ? fault.ms : 0);
      if (fault) world.count(`store ${fault.how}`);
      if (fault?.how === 'drain')
        world.after(fault.ms / 2, world.outside, 'drain', () => this.#db.onDrain(this.machine));
      if (isDelayed(fault)) this.#db.stalledUntil = Math.max(this.#db.stalledUntil, sent + 100);
      if (isWrite || this.#db.sharing === 'alone') sent = Math.max(sent, this.#lastRequest);
      this.#lastRequest = Math.max(sent, this.#lastRequest);
      world.at(sent, database, `${method} of ${this.machine.name}`, () => {
        if (!this.#waiting.has(waiting)) return; // the connection was cut before it arrived
        const back = this.#delay();
        if (fault?.how === 'before' || this.#db.isDown || world.now < this.#cutUntil)
          return settle(`${method} failed`, world.now + back, () => rejectCall(server('not done')));
        let result: ReturnType<SimulatedStore['execute']>;
        try {
          result = this.#db.execute(method, args, this);
        } catch (error) {
          if (method === 'append' && DuolaneError.from(error).code === 'invalid')
            world.broken('a runner writes what the rules allow', String(error));
          return settle(`${method} refused`, world.now + back, () => rejectCall(error));
        }
        if (fault?.how === 'after') {
          settle(`${method} lost`, world.now + back, () => rejectCall(server('reply lost')));
          return this.#missed(fault.ms);
        }
        const at = isWrite ? Math.max(this.#lastReply, world.now + back) : world.now + back;
        if (isWrite) this.#lastReply = at;
        settle(`${method} done`, at, () => {
          for (const commit of result.commits) this.#notify(commit);
          resolve(result.value);
          if (method === 'beat') this.#checkLost(result.value as readonly BeatRow[]);
        });
      });
    });
  }

  /** What a heartbeat reports as lost must be stopped before anything else happens. */
  #checkLost(rows: readonly BeatRow[]): void {
    const lost = rows.filter(({ claim }) => claim === 'lost');
    if (lost.length === 0) return;
    this.#db.world.after(0, this.machine, 'beat lost', () => {
      for (const { task } of lost) this.#db.onLost(task, this.machine);
    });
  }

  /** A commit went unannounced. A store that announces all says so. */
  #missed(ms: number): void {
    const { world } = this.#db;
    world.after(Math.min(ms, 500) + 1, this.machine, 'gap', () => {
      if (!this.closed) for (const listener of this.#gapListeners) listener();
    });
  }

  #close(): void {
    this.closed = true;
    for (const { reject } of this.#waiting)
      reject(new DuolaneError('closed', 'the log was closed'));
    this.#waiting.clear();
  }
}

const isDelayed = (fault: CallFault | undefined): fault is CallFault =>
  fault?.how === 'stall' || fault?.how === 'drain';
