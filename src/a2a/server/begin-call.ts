import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import type { Dialect, Operation, Result, Version } from '../protocol/dialect.ts';
import { Refusal } from '../protocol/a2a-errors.ts';
import type { EventStream } from './task-stream.ts';
import type { Caller } from './task-operations.ts';
import { perform, type CallOptions, type Performer } from './dispatch-operation.ts';
import type { Place, Streams } from './stream-registry.ts';

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

/** What a binding has read of a request. */
export interface Call {
  readonly operation: Operation;
  readonly dialect: Dialect;
  /** As the caller spelled them. */
  readonly params: JsonObject;
  readonly caller: Caller;
  readonly lastEventId: string | undefined;
  /** Extensions that the caller speaks. */
  readonly extensions: readonly string[];
  /** Aborts when the caller leaves. */
  readonly leaving: Required<Abortable>;
}

export interface Begun {
  /** Extensions that both speak. */
  readonly agreed: readonly string[];
  readonly result: Result | Begins;
}

/** A stream that was let in. Whoever reads it leaves the place, and asks `breakOf` why it broke. */
export interface Begins {
  readonly kind: 'events';
  readonly events: EventStream;
  readonly place: Place;
}

/** Performs a call, whatever the binding. */
export async function begin(
  { operation, dialect, params, caller, lastEventId, extensions, leaving }: Call,
  binding: Binding,
): Promise<Begun> {
  const { version } = dialect;
  const agreed = agreeExtensions(binding, extensions, version);
  const { streams } = binding;
  const place = isStream(operation) ? streams.enter(caller.owner, leaving) : streams.wait(leaving);
  let streamed = false;
  try {
    const call: CallOptions = { caller, version, lastEventId, leaving: place };
    const result = await perform(operation, dialect.decode(operation, params), binding, call);
    if (result.kind !== 'events') return { agreed, result };
    streamed = true;
    return { agreed, result: { ...result, place } };
  } finally {
    if (!streamed) place.leave();
  }
}

export const isStream = (operation: Operation): boolean =>
  operation === 'stream' || operation === 'subscribe';

/** Why a stream broke: what to tell the caller, or that the server leaves; nothing if the caller left. */
export function breakOf(
  error: unknown,
  place: Place,
  onError: Binding['onError'],
): Refusal | 'server left' | undefined {
  if (place.isLeft()) return 'server left';
  return place.aborted ? undefined : refusalOf(error, onError);
}

/** What the caller is told; what went wrong in here is told to `onError`. */
export function refusalOf(error: unknown, onError: Binding['onError']): Refusal {
  const refusal = Refusal.of(error);
  const { reason } = refusal;
  const hidden = reason === 'INTERNAL_ERROR' || reason === 'UNAVAILABLE';
  if (refusal !== error ? hidden : reason === 'INVALID_AGENT_RESPONSE') onError(error);
  return refusal;
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
