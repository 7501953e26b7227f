import { sseResponse, type SseItem } from '../../http/sse-response.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import { DONE } from '../../stream/queue-reader.ts';
import {
  dispatch,
  streamEndReason,
  type OperationCall,
  type ServerContext,
  type TaskStream,
} from './dispatch-operation.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { A2AError } from '../protocol/a2a-errors.ts';
import type { TaskStreamEvent } from './task-stream.ts';
import type { StreamSlot } from '../../http/stream-registry.ts';

/** How a binding over HTTP wraps encoded results, events and errors. */
export interface Envelope {
  result(value: unknown): Response;
  /** The text after `data: `. */
  event(value: unknown): string;
  error(error: A2AError): string;
}

/** When a client should reconnect after the server drained. */
const RETRY_MS = 1000;

/**
 * Dispatches a call and writes its response. The headers of a stream go out immediately; a failure
 * after them is an SSE event `error`.
 */
export async function toHttpResponse(
  call: OperationCall,
  server: ServerContext,
  envelope: Envelope,
): Promise<Response> {
  const { dialect } = call;
  const { agreed, outcome } = await dispatch(call, server);
  const response =
    outcome.kind === 'stream'
      ? sseResponse(
          keepAlive(
            new SseEventIterator(outcome, dialect, server, envelope),
            server.heartbeatMs,
            () => 'heartbeat' as const,
          ),
        )
      : envelope.result(dialect.encode(outcome));
  if (agreed.length > 0) response.headers.set(dialect.extensionHeader, agreed.join(', '));
  return response;
}

/**
 * The events of a stream as SSE items. Written as a class because every token passes here: an async
 * generator costs twice as much.
 */
class SseEventIterator implements AsyncIterableIterator<SseItem | readonly SseItem[]> {
  readonly #batches: AsyncIterator<TaskStreamEvent[]>;
  readonly #slot: StreamSlot;
  readonly #onError: ServerContext['onError'];
  readonly #envelope: Envelope;
  readonly #encode: (event: TaskStreamEvent) => SseItem;
  /** Why the rest of a batch cannot be encoded; thrown after the events before it were sent. */
  #failure: { readonly error: unknown } | undefined;
  #ended = false;

  constructor(
    { batches, slot }: TaskStream,
    dialect: Dialect,
    { onError }: ServerContext,
    envelope: Envelope,
  ) {
    this.#batches = batches[Symbol.asyncIterator]();
    this.#slot = slot;
    this.#onError = onError;
    this.#envelope = envelope;
    this.#encode = ({ id, out, last }) => ({
      id,
      data: envelope.event(dialect.encodeEvent(out, last)),
    });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<SseItem | readonly SseItem[]>> {
    if (this.#ended) return DONE;
    try {
      if (this.#failure) throw this.#failure.error;
      const { done, value } = await this.#batches.next();
      if (!done) return { done: false, value: this.#encodeAll(value) };
    } catch (error) {
      const reason = streamEndReason(error, this.#slot, this.#onError);
      // An event that cannot be encoded does not close its source.
      await this.return();
      if (reason === 'drain') return { done: false, value: { retry: RETRY_MS } };
      if (reason) return { done: false, value: errorItem(reason, this.#envelope) };
    }
    return this.return();
  }

  /**
   * Encodes a batch up to the first event that fails, so that the events before it are still sent.
   */
  #encodeAll(batch: TaskStreamEvent[]): readonly SseItem[] {
    const items: SseItem[] = [];
    try {
      for (const event of batch) items.push(this.#encode(event));
      // The generator behind the batch keeps it until the next read. The batch may have the
      // complete task, and a client that does not read would keep that in memory beside its bytes.
      batch.length = 0;
    } catch (error) {
      if (items.length === 0) throw error;
      this.#failure = { error };
    }
    return items;
  }

  /** May be called while a `next` waits: releasing the slot aborts that read. */
  async return(): Promise<IteratorResult<SseItem | readonly SseItem[]>> {
    this.#ended = true;
    this.#slot.release();
    await this.#batches.return?.();
    return DONE;
  }
}

/** The SSE event that ends a failed stream, with `retry:` if the failure is temporary. */
export const errorItem = (error: A2AError, envelope: Pick<Envelope, 'error'>): SseItem => ({
  event: 'error',
  data: envelope.error(error),
  ...(error.retryAfterMs !== undefined && { retry: error.retryAfterMs }),
});

/** The headers of an error response. */
export const headersOf = ({ retryAfter }: A2AError): Readonly<Record<string, string>> =>
  retryAfter === undefined ? {} : { 'retry-after': retryAfter };
