import type { JsonObject } from '../json.ts';
import type { Abortable } from '../stream/types.ts';

/**
 * The tasks of a source: calls that go on without their caller (`io.modelcontextprotocol/tasks`,
 * SEP-2663). Each method throws `not_found` for a task that does not exist, has expired, or belongs
 * to another owner.
 */
export interface SourceTasks {
  /**
   * Whether the source checks the `owner` of its tasks. If not, as for a dialled server that sees
   * one client, an offer binds the ids to the owner itself.
   */
  readonly checksOwner: boolean;
  get(taskId: string, options?: TaskOptions): Promise<ToolTask>;
  /**
   * Answers questions of a task, by the keys of its `inputRequests`. A response to a question that
   * is not open is ignored.
   */
  update(taskId: string, responses: JsonObject, options?: TaskOptions): Promise<void>;
  /** Requests the cancellation. Returns before the task has ended; may be called twice. */
  cancel(taskId: string, options?: TaskOptions): Promise<void>;
  /** Yields the task as it is now, then after each change, until it has ended. */
  watch(taskId: string, options?: TaskOptions): AsyncIterable<ToolTask>;
}

/** Who requests a task. */
export interface TaskOptions extends Abortable {
  /** The caller of the request, as in `CallOptions`. */
  readonly caller?: string | undefined;
  /** The authenticated owner of the request; a task of another owner is not found. */
  readonly owner?: string | undefined;
}

/**
 * A task in the form of the extension (`DetailedTask`); unknown members are kept. `inputRequests`,
 * `result` and `error` are present in the status that has them.
 */
export interface ToolTask extends JsonObject {
  readonly taskId: string;
  readonly status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled';
  readonly statusMessage?: string;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly lastUpdatedAt: string;
  /** How long the task is kept, from its creation; null without a limit. */
  readonly ttlMs: number | null;
  readonly pollIntervalMs?: number;
  readonly inputRequests?: JsonObject;
  readonly result?: JsonObject;
  /** The JSON-RPC error of a failed task. */
  readonly error?: JsonObject;
}
