import { waitForWake } from '../../stream/cancellable-generator.ts';
import { reportUnexpected } from '../../stream/report-unexpected.ts';
import type { TaskLog } from '../../task/types.ts';
import type { TaskRow } from '../page-api-types.ts';
import { taskRow } from './task-row.ts';

type ListedLog = Pick<TaskLog, 'list' | 'onCommit'>;

/** How many changed tasks a look returns, the newest first, and wait for a slow reader. */
const MAX_ROWS = 200;
/** The tasks of an owner are listed at most this often, however many commits there are. */
const QUIET_MS = 300;
/** They are listed after this time also without a commit: another replica may have one. */
const LOOK_MS = 5000;
/** Clocks of replicas differ a little, so each look begins so much earlier. */
const OVERLAP_MS = 2000;

/** Tasks that have changed. */
export class ChangedTasks {
  readonly rows: readonly TaskRow[];
  #text: string | undefined;

  constructor(rows: readonly TaskRow[]) {
    this.rows = rows;
  }

  /** As JSON, encoded once for all streams that send it. */
  get text(): string {
    return (this.#text ??= JSON.stringify({ tasks: this.rows }));
  }
}

/** Reads the changes of one owner. */
export interface ChangesReader {
  /**
   * Resolves with the tasks that have changed since the last call, and with undefined when the
   * signal aborts. Rejects if the store fails.
   */
  next(signal: AbortSignal): Promise<ChangedTasks | undefined>;
  close(): void;
}

/**
 * The tasks that change, by owner. All streams of one owner share one look at the store: a caller
 * may have a thousand streams, and a look of each would keep the store from everyone else.
 */
export class TaskChanges {
  readonly #log: ListedLog;
  readonly #owners = new Map<string, OwnerChanges>();

  constructor(log: ListedLog) {
    this.#log = log;
  }

  /** Begins to read the changes from now on. */
  open(owner: string | undefined): ChangesReader {
    const key = owner ?? '';
    const known = this.#owners.get(key);
    const changes = known ?? new OwnerChanges(this.#log, owner, () => this.#forget(key, changes));
    this.#owners.set(key, changes);
    return changes.open();
  }

  #forget(key: string, changes: OwnerChanges): void {
    if (this.#owners.get(key) === changes) this.#owners.delete(key);
  }
}

/** Looks for changes as long as it has readers. */
class OwnerChanges {
  readonly #log: ListedLog;
  readonly #owner: string | undefined;
  readonly #onEnd: () => void;
  readonly #readers = new Set<Reader>();
  readonly #stop = new AbortController();

  constructor(log: ListedLog, owner: string | undefined, onEnd: () => void) {
    this.#log = log;
    this.#owner = owner;
    this.#onEnd = onEnd;
    this.#run().catch(reportUnexpected);
  }

  open(): ChangesReader {
    const reader = new Reader(() => {
      this.#readers.delete(reader);
      if (this.#readers.size === 0) this.#end();
    });
    this.#readers.add(reader);
    return reader;
  }

  #end(): void {
    this.#stop.abort();
    this.#onEnd();
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let isDirty = false;
    let wake = (): void => {};
    const unlisten = this.#log.onCommit?.(() => {
      isDirty = true;
      wake();
    });
    const subscribe = (listener: () => void): (() => void) => {
      wake = listener;
      return () => (wake = () => {});
    };
    let since = Date.now() - 1;
    let sent = new Map<string, number>();
    try {
      while (!signal.aborted) {
        if (!isDirty) await waitForWake(subscribe, signal, LOOK_MS);
        if (signal.aborted) return;
        isDirty = false;
        const found = await this.#changedSince(since);
        const rows = found.filter(({ task, seq }) => sent.get(task) !== seq);
        const changed = new ChangedTasks(rows);
        if (rows.length > 0) for (const reader of this.#readers) reader.add(changed);
        sent = new Map(found.map(({ task, seq }) => [task, seq]));
        since = Math.max(since, ...found.map(({ updatedAt }) => updatedAt - OVERLAP_MS));
        await waitForWake(() => () => {}, signal, QUIET_MS);
      }
    } catch (error) {
      if (signal.aborted) return;
      for (const reader of this.#readers) reader.fail(error);
      this.#end();
    } finally {
      unlisten?.();
    }
  }

  async #changedSince(changedAfter: number): Promise<readonly TaskRow[]> {
    const rows: TaskRow[] = [];
    const owner = this.#owner;
    const { signal } = this.#stop;
    const query = { owner: owner ?? '', outline: true, changedAfter, signal };
    for await (const each of this.#log.list(query)) {
      if (each.owner === owner) rows.push(taskRow(each));
      if (rows.length === MAX_ROWS) break;
    }
    return rows;
  }
}

class Reader implements ChangesReader {
  readonly #onClose: () => void;
  #waiting: ChangedTasks | undefined;
  #failure: { readonly error: unknown } | undefined;
  #wake = (): void => {};

  constructor(onClose: () => void) {
    this.#onClose = onClose;
  }

  /** Keeps the newest rows for a stream whose client reads slowly. */
  add(changed: ChangedTasks): void {
    const { rows = [] } = this.#waiting ?? {};
    const newer = new Set(changed.rows.map(({ task }) => task));
    const older = rows.filter(({ task }) => !newer.has(task));
    this.#waiting =
      older.length === 0
        ? changed
        : new ChangedTasks([...changed.rows, ...older].slice(0, MAX_ROWS));
    this.#wake();
  }

  fail(error: unknown): void {
    this.#failure = { error };
    this.#wake();
  }

  async next(signal: AbortSignal): Promise<ChangedTasks | undefined> {
    while (!signal.aborted) {
      const changed = this.#waiting;
      this.#waiting = undefined;
      if (changed) return changed;
      if (this.#failure) throw this.#failure.error;
      await waitForWake((wake) => this.#listen(wake), signal, LOOK_MS);
    }
    return undefined;
  }

  close(): void {
    this.#onClose();
  }

  #listen(wake: () => void): () => void {
    this.#wake = wake;
    return () => (this.#wake = () => {});
  }
}
