import type { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { ClientDialect, Decoded } from './client-dialects.ts';
import type { Operation } from '../protocol/dialect.ts';
import type { A2ATask } from '../protocol/model.ts';

/** What came on a stream: an event, or something that is none. */
export type Received =
  | (Decoded & {
      readonly id: string;
      /** The task with this event, where the server said it whole and the event is what changed. */
      readonly whole?: A2ATask;
    })
  | { readonly malformed: DuolaneError };

/** One server, in one version and binding: requests out, results and events in, as the version spells them. */
export interface A2ATransport extends AsyncDisposable {
  readonly dialect: ClientDialect;
  /** How long the server wants a client to wait before it comes back. */
  readonly retryMs: number | undefined;
  /** The result of a call. Throws what the server refused with, `network` when it cannot be reached. */
  call(operation: Operation, params: JsonObject, signal?: AbortSignal): Promise<unknown>;
  /** The events of a stream. Ends when the server closes it, throws `network` when it breaks. */
  stream(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    options: { readonly signal: AbortSignal; readonly lastEventId?: string },
  ): AsyncGenerator<Received, void, undefined>;
}
