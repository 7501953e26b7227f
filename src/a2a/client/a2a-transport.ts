import type { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { ClientDialect, Decoded } from '../protocol/client-dialect.ts';
import type { Operation } from '../protocol/dialect.ts';
import type { A2ATask } from '../protocol/model.ts';

/** `fetch` of the platform, or a function that replaces it. */
export type ClientFetch = typeof globalThis.fetch;

/** One item of a stream: an event, or the error of data that is not an event. */
export type Received =
  | (Decoded & {
      readonly id: string;
      /** The complete task, if the client polled it and derived the event from the difference. */
      readonly task?: A2ATask;
    })
  | { readonly malformed: DuolaneError };

/**
 * The connection to one agent over one binding: sends requests, returns results and events
 * undecoded.
 */
export interface A2ATransport extends AsyncDisposable {
  readonly dialect: ClientDialect;
  /** How long the server wants a client to wait before it reconnects (`retry:` of SSE). */
  readonly retryMs: number | undefined;
  /** Calls an operation. Throws the server's error, or `network` if the server is unreachable. */
  call(operation: Operation, params: JsonObject, signal?: AbortSignal): Promise<unknown>;
  /** Opens a stream. Ends when the server closes it, throws `network` if the connection is lost. */
  stream(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    options: { readonly signal: AbortSignal; readonly lastEventId?: string },
  ): AsyncGenerator<Received, void, undefined>;
}
