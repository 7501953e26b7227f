import type { Snapshot } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ReplicaInfo, ReplicaTask } from '../task/types.ts';

/** What the page is told about an agent. */
export interface AgentCardLite {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the run form, with `examples` as samples. */
  readonly form?: JsonObject;
}

/** What a stream of entries says first. */
export interface StreamHead {
  /** Entries up to this one are replay. */
  readonly seq: number;
  /** The server's clock. */
  readonly at: number;
  /** The task has ended already, so all of it is replay. */
  readonly over: boolean;
}

/** One line of the task list. */
export type TaskRow = Pick<
  Snapshot,
  | 'task'
  | 'context'
  | 'agent'
  | 'state'
  | 'createdAt'
  | 'updatedAt'
  | 'seq'
  | 'firstTextAt'
  | 'usage'
  | 'pending'
> & { readonly title: string };

/** What anyone may know about signing in. */
export interface SessionHead {
  /** Whether the server wants to know who asks. */
  readonly wanted: boolean;
  /** The header that a key belongs in. */
  readonly header: string;
  /** Who this browser is signed in as. */
  readonly owner?: string;
  /** Whether this browser may see what concerns all callers, such as the replicas. */
  readonly operator?: true;
}

/**
 * One runner of those that share the log. A `beatAgeMs` of more than three heartbeats (15 s) means
 * that it died or cannot reach the database. `claims` counts all that it runs; `tasks` are those that
 * the caller may see.
 */
export type ReplicaRow = Omit<ReplicaInfo, 'tasks'> & {
  readonly tasks: readonly Omit<ReplicaTask, 'owner'>[];
};
