import type { JsonObject } from '../../json.ts';

/**
 * A2A 1.0 in its JSON spelling: the one model that the server, the client and both codecs share.
 * What 0.3 says differently is said in `codec-0.3.ts` and nowhere else.
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

/** Exactly one of `text`, `data`, `url`, `raw` (base64). */
export interface A2APart {
  readonly text?: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly raw?: string;
  readonly mediaType?: string;
  readonly filename?: string;
  readonly metadata?: JsonObject;
}

export interface A2AMessage {
  readonly messageId: string;
  readonly contextId?: string;
  readonly taskId?: string;
  readonly role: 'ROLE_USER' | 'ROLE_AGENT';
  readonly parts: readonly A2APart[];
  readonly metadata?: JsonObject;
}

export interface A2AStatus {
  readonly state: A2AState;
  readonly message?: A2AMessage;
  readonly timestamp: string;
}

export interface A2AArtifact {
  readonly artifactId: string;
  readonly name?: string;
  readonly parts: readonly A2APart[];
  readonly metadata?: JsonObject;
}

export interface A2ATask {
  readonly id: string;
  readonly contextId: string;
  readonly status: A2AStatus;
  readonly artifacts?: readonly A2AArtifact[];
  readonly history?: readonly A2AMessage[];
  readonly metadata?: JsonObject;
}

export interface StatusUpdate {
  readonly taskId: string;
  readonly contextId: string;
  readonly status: A2AStatus;
  readonly metadata?: JsonObject;
}

export interface ArtifactUpdate {
  readonly taskId: string;
  readonly contextId: string;
  readonly artifact: A2AArtifact;
  readonly append?: true;
  readonly lastChunk?: true;
  readonly metadata?: JsonObject;
}

/** One event of a stream: the member's name says what it is. */
export type A2AStreamEvent =
  | { readonly task: A2ATask }
  | { readonly message: A2AMessage }
  | { readonly statusUpdate: StatusUpdate }
  | { readonly artifactUpdate: ArtifactUpdate };

/** After these nothing follows; the stream closes. */
export const TERMINAL: ReadonlySet<A2AState> = new Set([
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_REJECTED',
]);

/** These close the stream too, but the task goes on with the next message. */
export const INTERRUPTED: ReadonlySet<A2AState> = new Set([
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_AUTH_REQUIRED',
]);

/** Where to tell a caller about a task's progress, in the flat spelling of 1.0. */
export interface PushConfig {
  readonly id: string;
  readonly taskId: string;
  readonly tenant?: string;
  readonly url: string;
  /** Sent back as `X-A2A-Notification-Token`, so that the receiver knows whom it hears. */
  readonly token?: string;
  readonly authentication?: { readonly scheme: string; readonly credentials?: string };
}

/** A push config before its server has it: without an id it is given one. */
export type PushTarget = Omit<PushConfig, 'id' | 'taskId' | 'tenant'> & { readonly id?: string };

/** Which tasks to list; all of the caller's by default. */
export interface A2ATaskQuery {
  readonly contextId?: string;
  readonly status?: A2AState;
  /** From 1 to 100; 50 by default. */
  readonly pageSize?: number;
  /** `nextPageToken` of the page before. */
  readonly pageToken?: string;
  readonly historyLength?: number;
  /** Changed at this time (ISO 8601) or later. */
  readonly statusTimestampAfter?: string;
  readonly includeArtifacts?: boolean;
}

export interface A2ATaskPage {
  readonly tasks: readonly A2ATask[];
  /** Empty on the last page. */
  readonly nextPageToken: string;
  readonly pageSize: number;
  readonly totalSize: number;
}
