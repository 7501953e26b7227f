import { sseResponse, type SseItem } from '../http/sse.ts';
import type { JsonObject } from '../json.ts';
import { keepAlive } from '../stream/keep-alive.ts';
import type { Dialect, Operation, Version } from './dialect.ts';
import { Refusal } from './errors.ts';
import { readExtensions } from './exchange.ts';
import type { Numbered } from './follow.ts';
import type { Caller } from './operations.ts';
import { perform, type Performer } from './perform.ts';
import type { Place, Streams } from './streams.ts';

/** What the bindings of one server share. */
export interface Binding extends Performer {
  readonly streams: Streams;
  readonly heartbeatMs: number;
  readonly maxBodyBytes: number;
  readonly extensions: readonly string[];
  readonly requiredExtensions: readonly string[];
  /** Failures of ours, which the caller is not told in full. */
  readonly onError: (error: unknown) => void;
}

export interface Call {
  readonly operation: Operation;
  readonly dialect: Dialect;
  /** As the caller spelled them. */
  readonly params: JsonObject;
  readonly caller: Caller;
  readonly lastEventId: string | undefined;
}

/** How a binding wraps what a dialect has encoded. */
export interface Envelope {
  result(value: unknown): Response;
  /** The text behind `data: `. */
  event(value: unknown): string;
  error(refusal: Refusal): string;
}

/** How soon a client should come back to a server that goes away. */
const RETRY_MS = 1000;

/** Performs a call. A stream's headers go out at once; what fails behind them is told inside it. */
export async function answer(
  request: Request,
  { operation, dialect, params, caller, lastEventId }: Call,
  binding: Binding,
  envelope: Envelope,
): Promise<Response> {
  const { version } = dialect;
  const agreed = agreeExtensions(binding, readExtensions(request), version);
  const place = isStream(operation)
    ? binding.streams.enter(caller.owner, request.signal)
    : undefined;
  try {
    const signal = place?.signal ?? request.signal;
    const call = { ...caller, version, lastEventId, signal };
    const result = await perform(operation, dialect.decode(operation, params), binding, call);
    const response =
      result.kind === 'events'
        ? sseResponse(
            keepAlive(
              items(result.events, place as Place, dialect, binding, envelope),
              binding.heartbeatMs,
              () => 'heartbeat' as const,
            ),
          )
        : envelope.result(dialect.encode(result));
    if (agreed.length > 0) response.headers.set('a2a-extensions', agreed.join(', '));
    return response;
  } catch (error) {
    place?.leave();
    throw error;
  }
}

export const isStream = (operation: Operation): boolean =>
  operation === 'stream' || operation === 'subscribe';

async function* items(
  events: AsyncIterable<Numbered>,
  place: Place,
  dialect: Dialect,
  { onError }: Binding,
  envelope: Envelope,
): AsyncGenerator<SseItem, void, undefined> {
  try {
    for await (const { id, out, last } of events)
      yield { id, data: envelope.event(dialect.encodeEvent(out, last)) };
  } catch (error) {
    if (place.isLeft()) yield { retry: RETRY_MS };
    if (place.signal.aborted) return;
    const refusal = Refusal.of(error);
    if (refusal.reason === 'INTERNAL_ERROR') onError(error);
    yield { event: 'error', data: envelope.error(refusal) };
  } finally {
    place.leave();
  }
}

/** Throws if the caller does not speak what the agent requires; gives what both speak. */
function agreeExtensions(
  { extensions, requiredExtensions }: Binding,
  spoken: readonly string[],
  version: Version,
): readonly string[] {
  const missing = requiredExtensions.filter((uri) => !spoken.includes(uri));
  if (missing.length > 0)
    throw new Refusal(
      version === '0.3' ? 'UNSUPPORTED_OPERATION' : 'EXTENSION_SUPPORT_REQUIRED',
      `this agent requires ${missing.join(', ')}; name it in A2A-Extensions`,
    );
  return extensions.filter((uri) => spoken.includes(uri));
}
