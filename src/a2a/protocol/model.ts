import type { JsonObject } from '../../json.ts';

/**
 * The state of a task. This file is A2A 1.0 in its JSON form: the one model that server, client and
 * all dialects share. `a2a/v0.3` translates it for A2A 0.3.
 */
export type A2AState =
  | 'TASK_STATE_SUBMITTED'
  | 'TASK_STATE_WORKING'
  | 'TASK_STATE_INPUT_REQUIRED'
  | 'TASK_STATE_AUTH_REQUIRED'
  | 'TASK_STATE_COMPLETED'
  | 'TASK_STATE_FAILED'
  | 'TASK_STATE_CANCELED'
  | 'TASK_STATE_REJECTED';

/** Content of a message or artifact: exactly one of `text`, `data`, `url`, `raw` (base64). */
export interface A2APart {
  readonly text?: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly raw?: string;
  readonly mediaType?: string;
  readonly filename?: string;
  readonly metadata?: JsonObject;
}

/** A message of the user or the agent. */
export interface A2AMessage {
  readonly messageId: string;
  readonly contextId?: string;
  readonly taskId?: string;
  readonly role: 'ROLE_USER' | 'ROLE_AGENT';
  readonly parts: readonly A2APart[];
  readonly metadata?: JsonObject;
}

/** The state of a task, with an optional message for a person. */
export interface A2AStatus {
  readonly state: A2AState;
  readonly message?: A2AMessage;
  readonly timestamp: string;
}

/** A result of a task: a file, data, or the text of a run. */
export interface A2AArtifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts: readonly A2APart[];
  readonly metadata?: JsonObject;
}

/** A task as a client sees it. */
export interface A2ATask {
  readonly id: string;
  readonly contextId: string;
  readonly status: A2AStatus;
  readonly artifacts?: readonly A2AArtifact[];
  readonly history?: readonly A2AMessage[];
  readonly metadata?: JsonObject;
}

/** The event of a status change or a progress message. */
export interface StatusUpdate {
  readonly taskId: string;
  readonly contextId: string;
  readonly status: A2AStatus;
  readonly metadata?: JsonObject;
}

/** The event of a new, replaced or (`append`) extended artifact. */
export interface ArtifactUpdate {
  readonly taskId: string;
  readonly contextId: string;
  readonly artifact: A2AArtifact;
  readonly append?: true;
  readonly lastChunk?: true;
  readonly metadata?: JsonObject;
}

/** One event of a stream; the name of its only member is its kind. */
export type A2AStreamEvent =
  | { readonly task: A2ATask }
  | { readonly message: A2AMessage }
  | { readonly statusUpdate: StatusUpdate }
  | { readonly artifactUpdate: ArtifactUpdate };

/** The final states: no event follows, and the stream closes. */
export const TERMINAL: ReadonlySet<A2AState> = new Set([
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
]);

/** The states of a task that waits for a person; it continues with the next message. */
export const INTERRUPTED: ReadonlySet<A2AState> = new Set([
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_AUTH_REQUIRED',
]);

/** A push receiver: a webhook that gets the events of a task. In the flat form of 1.0. */
export interface PushConfig {
  readonly id: string;
  readonly taskId: string;
  readonly tenant?: string;
  readonly url: string;
  /** Sent as `X-A2A-Notification-Token`, so that the receiver can authenticate the sender. */
  readonly token?: string;
  readonly authentication?: { readonly scheme: string; readonly credentials?: string };
}

/** A push config to create; the server generates an id if none is given. */
export type PushTarget = Omit<PushConfig, 'id' | 'taskId' | 'tenant'> & { readonly id?: string };

/** A filter for a list of tasks; by default all tasks of the caller. */
export interface A2ATaskQuery {
  readonly contextId?: string;
  readonly status?: A2AState;
  /** From 1 to 100; 50 by default. */
  readonly pageSize?: number;
  /** `nextPageToken` of the previous list page. */
  readonly pageToken?: string;
  readonly historyLength?: number;
  /** Only tasks that changed at this time (ISO 8601) or later. */
  readonly statusTimestampAfter?: string;
  readonly includeArtifacts?: boolean;
}

/** One list page of tasks. */
export interface A2ATaskPage {
  readonly tasks: readonly A2ATask[];
  /** Empty on the last list page. */
  readonly nextPageToken: string;
  readonly pageSize: number;
  readonly totalSize: number;
}

/**
 * The URI of our extension, which our cards name: every event has an id, `Last-Event-ID` resumes
 * after it, and a message that is sent twice is one turn.
 */
export const RESUME_EXTENSION = 'urn:duolane:a2a:resume:v1';
