import type { Snapshot } from '../event/types.ts';
import type { JsonObject } from '../json.ts';
import type { ReplicaInfo, ReplicaTask } from '../task/types.ts';

/** An agent as the page lists it. */
export interface AgentCardLite {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the run form, with `examples` as samples. */
  readonly form?: JsonObject;
}

/** A tool server as the page lists it. */
export interface ToolServerLite {
  /** The path of its MCP endpoint. */
  readonly path: string;
  readonly name: string;
}

/** The first event of a stream of entries. */
export interface StreamHead {
  /** Entries up to this number are replay: they were in the log when the stream began. */
  readonly seq: number;
  /** The server's clock (Unix ms), so that the page can compute ages. */
  readonly at: number;
  /** The task has ended already, so all of it is replay. */
  readonly over: boolean;
  /** A `beat` comes after this time without an entry; without it the server may be down. */
  readonly beatMs?: number;
}

/** One row of the task list. */
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
  | 'canceling'
  | 'running'
  | 'suspended'
  | 'attempt'
  | 'owner'
  | 'error'
> & { readonly title: string };

/** One list page of `GET /api/tasks`. */
export interface TaskPage {
  readonly tasks: readonly TaskRow[];
  /** Where the next list page begins; missing on the last one. */
  readonly after?: string;
  /** With a search: how many tasks were looked at for this list page. */
  readonly scanned?: number;
}

/**
 * The response to `GET /api/session`, which anyone may read: how to sign in, and who is signed in.
 */
export interface SessionHead {
  /** Whether the server requires credentials. */
  readonly wanted: boolean;
  /** The header in which the server expects an API key. */
  readonly header: string;
  /** The owner that this browser is signed in as. */
  readonly owner?: string;
  /** Whether this browser may read what concerns all callers, such as the replicas. */
  readonly operator?: true;
}

/**
 * One of the runners that share the log. A `beatAgeMs` of more than three heartbeats (15 s) means
 * that the runner crashed or cannot reach the database. `claims` counts everything that it runs;
 * `tasks` lists only what the caller may see.
 */
export type ReplicaRow = Omit<ReplicaInfo, 'tasks'> & {
  readonly tasks: readonly Omit<ReplicaTask, 'owner'>[];
};
