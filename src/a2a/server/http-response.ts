import { sseResponse, type SseItem } from '../../http/sse-response.ts';
import { keepAlive } from '../../stream/keep-alive.ts';
import { DONE } from '../../stream/queue-reader.ts';
import {
  begin,
  streamEndReason,
  type Begins,
  type ServerContext,
  type OperationCall,
} from './begin-call.ts';
import type { Dialect } from '../protocol/dialect.ts';
import type { A2AError } from '../protocol/a2a-errors.ts';
import type { TaskStreamEvent } from './task-stream.ts';
import type { StreamSlot } from './stream-registry.ts';

/** How a binding over HTTP wraps what a dialect has encoded. */
export interface Envelope {
  result(value: unknown): Response;
  /** The text behind `data: `. */
  event(value: unknown): string;
  error(refusal: A2AError): string;
}

/** How soon a client should come back to a server that goes away. */
const RETRY_MS = 1000;

/** Performs a call. A stream's headers go out at once; what fails behind them is told inside it. */
export async function toHttpResponse(
  call: OperationCall,
  binding: ServerContext,
  envelope: Envelope,
): Promise<Response> {
  const { dialect } = call;
  const { agreed, result } = await begin(call, binding);
  const response =
    result.kind === 'events'
      ? sseResponse(
          keepAlive(
            new SseEventIterator(result, dialect, binding, envelope),
            binding.heartbeatMs,
            () => 'heartbeat' as const,
          ),
        )
      : envelope.result(dialect.encode(result));
  const header = dialect.version === '0.3' ? 'x-a2a-extensions' : 'a2a-extensions';
  if (agreed.length > 0) response.headers.set(header, agreed.join(', '));
  return response;
}

/** A stream's events as they go out. By hand, since every token passes here: a generator costs twice as much. */
class SseEventIterator implements AsyncIterableIterator<SseItem | readonly SseItem[]> {
  readonly #batches: AsyncIterator<readonly TaskStreamEvent[]>;
  readonly #place: StreamSlot;
  readonly #onError: ServerContext['onError'];
  readonly #envelope: Envelope;
  readonly #encode: (event: TaskStreamEvent) => SseItem;
  /** Why the rest of a batch cannot be sent; those before it go first. */
  #broken: { readonly error: unknown } | undefined;
  #over = false;

  constructor(
    { events, place }: Begins,
    dialect: Dialect,
    { onError }: ServerContext,
    envelope: Envelope,
  ) {
    this.#batches = events.batches()[Symbol.asyncIterator]();
    this.#place = place;
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
    if (this.#over) return DONE;
    try {
      if (this.#broken) throw this.#broken.error;
      const { done, value } = await this.#batches.next();
      if (!done) return { done: false, value: this.#encodeAll(value) };
    } catch (error) {
      const why = streamEndReason(error, this.#place, this.#onError);
      // What could not be encoded leaves its source open.
      await this.return();
      if (why === 'server left') return { done: false, value: { retry: RETRY_MS } };
      if (why) return { done: false, value: errorItem(why, this.#envelope) };
    }
    return this.return();
  }

  /** As many as can be encoded: one that cannot must not take those before it along. */
  #encodeAll(batch: readonly TaskStreamEvent[]): readonly SseItem[] {
    const items: SseItem[] = [];
    try {
      for (const event of batch) items.push(this.#encode(event));
    } catch (error) {
      if (items.length === 0) throw error;
      this.#broken = { error };
    }
    return items;
  }

  /** Also while a `next` waits: the place is left first, which ends whatever is read in it. */
  async return(): Promise<IteratorResult<SseItem | readonly SseItem[]>> {
    this.#over = true;
    this.#place.release();
    await this.#batches.return?.();
    return DONE;
  }
}

/** A stream's end by a failure; one that will pass says when to come back. */
export const errorItem = (refusal: A2AError, { error }: Pick<Envelope, 'error'>): SseItem => ({
  event: 'error',
  data: error(refusal),
  ...(refusal.retryAfterMs !== undefined && { retry: refusal.retryAfterMs }),
});

/** The headers of an answer that refuses. */
export const headersOf = ({ retryAfter }: A2AError): Readonly<Record<string, string>> =>
  retryAfter === undefined ? {} : { 'retry-after': retryAfter };
