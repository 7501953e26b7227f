import type { Snapshot } from '../event/types.ts';
import type { JsonObject } from '../json.ts';

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
