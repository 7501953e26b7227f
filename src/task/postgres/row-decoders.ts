import { asNumber, asString, asStrings, type JsonObject, omitUndefined } from '../../json.ts';
import type { EntryRow, ListPosition } from '../store/store.ts';
import type { Bookmark, ReplicaInfo, ReplicaTask } from '../types.ts';
import type { SqlRow } from './connections.ts';

/*
 * One decoder for each statement of `sql.ts` that returns rows. `pg` returns a bigint as a string,
 * so numbers are converted; what a statement can leave empty is optional in the result.
 */

/** A row of `heads`. */
export const decodeHeadInfo = (
  row: SqlRow,
): { readonly task: string; readonly head: number; readonly ended: boolean } => ({
  task: String(row['id']),
  head: Number(row['seq']),
  ended: row['ended'] === true,
});

/** The entry in a row of `read` or `turns`. */
export const decodeEntryRow = (row: SqlRow): EntryRow => ({
  seq: Number(row['seq']),
  note: row['note'] === true,
  line: String(row['line']),
});

/** A task of a list page, with its outline if that was requested and is as new as its snapshot. */
export interface ListedRow {
  readonly task: string;
  readonly position: ListPosition;
  /** The size of its snapshot in bytes. */
  readonly size: number;
  readonly outline?: string;
}

export function decodeListedRow(row: SqlRow): ListedRow {
  const outline = row['outline'];
  return {
    task: String(row['id']),
    position: { changedAt: Number(row['changed_at']), key: Number(row['key']) },
    size: Number(row['size'] ?? 0),
    ...(typeof outline === 'string' && { outline }),
  };
}

export const decodeBookmark = (row: SqlRow): Bookmark => ({
  task: String(row['task']),
  name: String(row['name']),
  after: Number(row['after']),
  data: JSON.parse(String(row['data'])) as JsonObject,
});

/** The row of `write`: the numbers of the tasks that were written, and the notices about them. */
export const decodeWritten = (
  row: SqlRow | undefined,
): { readonly written: readonly number[]; readonly notices: readonly string[] } => ({
  written: ((row?.['done'] ?? []) as readonly unknown[]).map(Number),
  notices: asStrings(row?.['news']),
});

/** A row of `beat`. `rev` is set if the claim was renewed. */
export function decodeBeat(row: SqlRow): {
  readonly claim: 'held' | 'over' | 'lost';
  readonly head: number;
  readonly rev?: number;
} {
  const claim = row['same'] !== true ? 'lost' : row['held'] === true ? 'held' : 'over';
  const head = Number(row['seq']);
  return row['rev'] === null ? { claim, head } : { claim, head, rev: Number(row['rev']) };
}

/**
 * A row of `load` or `claim`. Without `line`, the task has not changed since the known revision.
 */
export interface HeadRow {
  readonly task: string;
  readonly rev: number;
  readonly epoch: number;
  readonly worker?: string;
  /** How long the lease still lasts. */
  readonly leaseMs: number;
  /** The stored snapshot. */
  readonly line?: string;
  /** The lines of the entries after the snapshot. */
  readonly rest: readonly string[];
}

export function decodeHeadRow(row: SqlRow): HeadRow {
  const { worker, line } = row;
  return {
    task: String(row['id']),
    rev: Number(row['rev']),
    epoch: Number(row['epoch']),
    ...(typeof worker === 'string' && { worker }),
    leaseMs: Number(row['lease_ms'] ?? 0),
    ...(typeof line === 'string' && { line }),
    rest: asStrings(row['rest']),
  };
}

/** The row of `claim`: a claimed task, or how many tasks are free. */
export const decodeClaim = (
  row: SqlRow | undefined,
): {
  readonly task?: string;
  readonly party: string;
  /** How many tasks are free; another replica may be claiming them. */
  readonly free: number;
  /** The notice for other replicas, if the claim was taken over from one of them. */
  readonly notices: readonly string[];
} => ({
  ...(typeof row?.['id'] === 'string' && { task: row['id'] }),
  party: asString(row?.['party']),
  free: Number(row?.['free'] ?? 0),
  notices: row?.['taken'] === true ? [String(row['news'])] : [],
});

/** A claim whose lease has ended by the clock of the database. */
export interface SuspectRow {
  readonly task: string;
  readonly epoch: number;
  readonly leaseUntil: number;
  /** The length of its lease; 0 for a replica of a version that does not store it. */
  readonly leaseMs: number;
}

/** The row of `suspects`: such claims, and after how long the next lease ends. */
export function decodeSuspects(row: SqlRow | undefined): {
  readonly suspects: readonly SuspectRow[];
  readonly nextMs?: number;
  readonly dueMs?: number;
} {
  const next = row?.['next_ms'] ?? undefined;
  const due = row?.['due_ms'] ?? undefined;
  const suspects = asStrings(row?.['suspects']).map((text): SuspectRow => {
    const [task, epoch, leaseUntil, leaseMs] = JSON.parse(text) as unknown[];
    return {
      task: String(task),
      epoch: Number(epoch),
      leaseUntil: Number(leaseUntil),
      leaseMs: asNumber(leaseMs) ?? 0,
    };
  });
  const numberOf = (value: unknown): number | undefined =>
    value === undefined ? undefined : Number(value);
  return { suspects, ...omitUndefined({ nextMs: numberOf(next), dueMs: numberOf(due) }) };
}

/** A row of `replicas`. */
export const decodeReplica = (row: SqlRow): Omit<ReplicaInfo, 'here'> => ({
  worker: String(row['worker']),
  host: String(row['host']),
  pid: Number(row['pid']),
  since: Number(row['since']),
  beatAgeMs: Math.max(0, Number(row['beat_age_ms'])),
  claims: Number(row['claims']),
  tasks: asStrings(row['tasks']).map((text) => JSON.parse(text) as ReplicaTask),
});
