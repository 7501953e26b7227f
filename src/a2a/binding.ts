import { sseResponse, type SseItem } from '../http/sse.ts';
import { keepAlive } from '../stream/keep-alive.ts';
import { begin, breakOf, type Begins, type Binding, type Call } from './call.ts';
import type { Dialect } from './dialect.ts';
import type { Refusal } from './errors.ts';

/** How a binding over HTTP wraps what a dialect has encoded. */
export interface Envelope {
  result(value: unknown): Response;
  /** The text behind `data: `. */
  event(value: unknown): string;
  error(refusal: Refusal): string;
}

/** How soon a client should come back to a server that goes away. */
const RETRY_MS = 1000;

/** Performs a call. A stream's headers go out at once; what fails behind them is told inside it. */
export async function answer(call: Call, binding: Binding, envelope: Envelope): Promise<Response> {
  const { dialect } = call;
  const { agreed, result } = await begin(call, binding);
  const response =
    result.kind === 'events'
      ? sseResponse(
          keepAlive(
            items(result, dialect, binding, envelope),
            binding.heartbeatMs,
            () => 'heartbeat' as const,
          ),
        )
      : envelope.result(dialect.encode(result));
  if (agreed.length > 0) response.headers.set('a2a-extensions', agreed.join(', '));
  return response;
}

async function* items(
  { events, place }: Begins,
  dialect: Dialect,
  { onError }: Binding,
  envelope: Envelope,
): AsyncGenerator<SseItem | readonly SseItem[], void, undefined> {
  try {
    for await (const batch of events.batches())
      yield batch.map(({ id, out, last }) => ({
        id,
        data: envelope.event(dialect.encodeEvent(out, last)),
      }));
  } catch (error) {
    const why = breakOf(error, place, onError);
    if (why === 'server left') yield { retry: RETRY_MS };
    else if (why) yield { event: 'error', data: envelope.error(why) };
  } finally {
    place.leave();
  }
}
