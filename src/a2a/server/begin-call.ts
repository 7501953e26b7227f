import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import type { Dialect, Operation, Result, Version } from '../protocol/dialect.ts';
import { A2AError } from '../protocol/a2a-errors.ts';
import type { TaskEventStream } from './task-stream.ts';
import type { Caller } from './task-operations.ts';
import { dispatch, type DispatchOptions, type DispatchContext } from './dispatch-operation.ts';
import type { StreamSlot, StreamRegistry } from './stream-registry.ts';

/** What the bindings of one server share. */
export interface ServerContext extends DispatchContext {
  readonly streams: StreamRegistry;
  readonly heartbeatMs: number;
  readonly maxBodyBytes: number;
  readonly extensions: readonly string[];
  readonly requiredExtensions: readonly string[];
  /** Failures of ours, which the caller is not told in full. */
  readonly onError: (error: unknown) => void;
}

/** What a binding has read of a request. */
export interface OperationCall {
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

/** A stream that was let in. Whoever reads it leaves the place, and asks `streamEndReason` why it broke. */
export interface Begins {
  readonly kind: 'events';
  readonly events: TaskEventStream;
  readonly place: StreamSlot;
}

/** Performs a call, whatever the binding. */
export async function begin(
  { operation, dialect, params, caller, lastEventId, extensions, leaving }: OperationCall,
  binding: ServerContext,
): Promise<Begun> {
  const { version } = dialect;
  const agreed = agreeExtensions(binding, extensions, version);
  const { streams } = binding;
  const place = isStream(operation)
    ? streams.openStream(caller.owner, leaving)
    : streams.openUnary(leaving);
  let streamed = false;
  try {
    const call: DispatchOptions = { caller, version, lastEventId, leaving: place };
    const result = await dispatch(operation, dialect.decode(operation, params), binding, call);
    if (result.kind !== 'events') return { agreed, result };
    streamed = true;
    return { agreed, result: { ...result, place } };
  } finally {
    if (!streamed) place.release();
  }
}

export const isStream = (operation: Operation): boolean =>
  operation === 'stream' || operation === 'subscribe';

/** Why a stream broke: what to tell the caller, or that the server leaves; nothing if the caller left. */
export function streamEndReason(
  error: unknown,
  place: StreamSlot,
  onError: ServerContext['onError'],
): A2AError | 'server left' | undefined {
  if (place.closedByServer()) return 'server left';
  return place.aborted ? undefined : toA2AError(error, onError);
}

/** What the caller is told; what went wrong in here is told to `onError`. */
export function toA2AError(error: unknown, onError: ServerContext['onError']): A2AError {
  const refusal = A2AError.of(error);
  const { reason } = refusal;
  const hidden = reason === 'INTERNAL_ERROR' || reason === 'UNAVAILABLE';
  if (refusal !== error ? hidden : reason === 'INVALID_AGENT_RESPONSE') onError(error);
  return refusal;
}

/** Throws if the caller does not speak what the agent requires; gives what both speak. */
function agreeExtensions(
  { extensions, requiredExtensions }: ServerContext,
  spoken: readonly string[],
  version: Version,
): readonly string[] {
  const missing = requiredExtensions.filter((uri) => !spoken.includes(uri));
  if (missing.length > 0)
    throw new A2AError(
      version === '0.3' ? 'UNSUPPORTED_OPERATION' : 'EXTENSION_SUPPORT_REQUIRED',
      `this agent requires ${missing.join(', ')}; name it in A2A-Extensions`,
    );
  return extensions.filter((uri) => spoken.includes(uri));
}
