import { DuolaneError } from '../errors.ts';
import { asObject, isObject, type JsonObject } from '../json.ts';

/** The body of a control request: its subtype, and the fields of that subtype. */
export interface ControlRequest extends JsonObject {
  readonly subtype: string;
}

/** The outcome of a control request: a response, or an error text with an optional code. */
export type ControlResponse =
  | {
      readonly ok: true;
      readonly response?: unknown;
      /** Members that stand beside the response, such as `pending_permission_requests`. */
      readonly envelope?: JsonObject;
    }
  | { readonly ok: false; readonly error: string; readonly errorCode?: string };

/** What the caller of the machine has to do next. */
export type ControlEffect =
  /** Write this frame to the peer. */
  | { readonly do: 'write'; readonly frame: JsonObject }
  /**
   * The peer sent a request: handle it in the background, then call `answer(id, …)` or `drop(id)`
   * once.
   */
  | { readonly do: 'serve'; readonly id: string; readonly request: ControlRequest }
  /**
   * The peer withdrew its request or is gone: abort the handler, because its response is not
   * awaited.
   */
  | { readonly do: 'abort'; readonly id: string; readonly reason: DuolaneError }
  /** The peer responded to our request; `envelope` has the members beside the response. */
  | {
      readonly do: 'resolve';
      readonly id: string;
      readonly response: unknown;
      readonly envelope: JsonObject;
    }
  | { readonly do: 'reject'; readonly id: string; readonly error: DuolaneError }
  /** Our response cannot be sent although the peer still waits for it: report the loss. */
  | {
      readonly do: 'lost';
      readonly id: string;
      readonly request: ControlRequest;
      readonly frame: JsonObject;
    }
  /**
   * Log the frame and do nothing else: a response to an unknown request, a second request with the
   * same id. With `unanswerable` the peer sent a request that can never get a response.
   */
  | {
      readonly do: 'ignore';
      readonly why: string;
      readonly frame: JsonObject;
      readonly unanswerable?: true;
    };

const CONTROL = 'control_';

/** Whether a frame belongs to the control lane. Every other frame belongs to the message lane. */
export const isControl = (frame: JsonObject): boolean =>
  typeof frame['type'] === 'string' && frame['type'].startsWith(CONTROL);

/**
 * One side of the stream-json control protocol as a pure state machine: frames in, effects out; no
 * promises, no timers, no streams. The host and the agent CLI both use it.
 *
 * It guarantees: every request of ours is settled exactly once, whatever the peer sends; every
 * request of the peer is served once and gets at most one response; a response that cannot be
 * delivered becomes a `lost` effect, unless the peer withdrew the request.
 *
 * The two directions of the pipe close separately: after `closeWrite` nothing of ours reaches the
 * peer, but responses to our requests may still arrive; after `end` the peer is gone.
 *
 * @example
 * ```ts
 * const peer = new ControlPeer();
 * const { id, effect } = peer.request({ subtype: 'interrupt' });
 * if (effect.do === 'write') pipe.write(encodeLine(effect.frame));
 * ```
 */
export class ControlPeer {
  readonly #prefix: string;
  readonly #outgoing = new Map<string, string>(); // our pending requests: id to subtype
  readonly #incoming = new Map<string, ControlRequest>();
  // Ids whose handler still runs although the peer no longer waits: they must not be served again.
  readonly #withdrawn = new Set<string>();
  #next = 0;
  /** Why nothing of ours can be written any more, or undefined while it can. */
  writeClosed: DuolaneError | undefined;
  #ended = false;

  /** `prefix` distinguishes the ids of two peers in a trace. */
  constructor(prefix = 'req') {
    this.#prefix = prefix;
  }

  /** Our requests that wait for a response: id to subtype. */
  get outgoing(): ReadonlyMap<string, string> {
    return this.#outgoing;
  }

  /** Requests of the peer that wait for a response. */
  get incoming(): ReadonlyMap<string, ControlRequest> {
    return this.#incoming;
  }

  /** Starts a request. The effect writes it, or rejects it with `closed` after `closeWrite`. */
  request(request: ControlRequest): { readonly id: string; readonly effect: ControlEffect } {
    const id = `${this.#prefix}_${++this.#next}`;
    if (this.writeClosed) {
      const error = new DuolaneError(
        'closed',
        `cannot send ${request.subtype}: ${this.writeClosed.message}`,
        { cause: this.writeClosed },
      );
      return { id, effect: { do: 'reject', id, error } };
    }
    this.#outgoing.set(id, request.subtype);
    return { id, effect: { do: 'write', frame: requestFrame(id, request) } };
  }

  /**
   * Removes a request of ours that was never written: no response will come, and no cancel is sent.
   */
  forget(id: string): void {
    this.#outgoing.delete(id);
  }

  /** Withdraws a request of ours: it is rejected with `reason`, and a later response is ignored. */
  cancel(id: string, reason: DuolaneError): readonly ControlEffect[] {
    if (!this.#outgoing.delete(id)) return [];
    const rejected = { do: 'reject', id, error: reason } as const;
    if (this.writeClosed) return [rejected];
    return [{ do: 'write', frame: { type: 'control_cancel_request', request_id: id } }, rejected];
  }

  /** Sends the response of our handler to the peer's request `id`. */
  answer(id: string, answer: ControlResponse): ControlEffect | undefined {
    const request = this.#incoming.get(id);
    if (!request) {
      this.#withdrawn.delete(id);
      return undefined;
    }
    this.#incoming.delete(id);
    const frame = { type: 'control_response', response: envelope(id, answer) };
    return this.writeClosed ? { do: 'lost', id, request, frame } : { do: 'write', frame };
  }

  /**
   * Leaves the peer's request `id` without a response, because it was cancelled inside its payload.
   */
  drop(id: string): void {
    this.#incoming.delete(id);
    this.#withdrawn.delete(id);
  }

  /** Processes a frame for which `isControl` is true. */
  receive(frame: JsonObject): ControlEffect {
    switch (frame['type']) {
      case 'control_request':
        return this.#receiveRequest(frame);
      case 'control_response':
        return this.#receiveResponse(frame);
      case 'control_cancel_request':
        return this.#receiveCancel(frame);
      default:
        return { do: 'ignore', why: `unknown control frame "${String(frame['type'])}"`, frame };
    }
  }

  /**
   * From now on nothing of ours reaches the peer. `abandon` means that we close on purpose:
   * handlers of the peer's requests are aborted, and their responses are dropped without a report.
   */
  closeWrite(
    reason: DuolaneError,
    { abandon = false }: { readonly abandon?: boolean } = {},
  ): readonly ControlEffect[] {
    this.writeClosed ??= reason;
    if (!abandon) return [];
    const aborted = this.#abortServing(reason);
    for (const id of this.#incoming.keys()) this.#withdrawn.add(id);
    this.#incoming.clear();
    return aborted;
  }

  /**
   * Ends the machine because the peer is gone: our requests are rejected, its requests are aborted.
   */
  end(reason: DuolaneError): readonly ControlEffect[] {
    if (this.#ended) return [];
    this.#ended = true;
    this.writeClosed ??= reason;
    const rejected = [...this.#outgoing.keys()].map(
      (id) => ({ do: 'reject', id, error: reason }) as const,
    );
    this.#outgoing.clear();
    return [...rejected, ...this.#abortServing(reason)];
  }

  #abortServing(reason: DuolaneError): readonly ControlEffect[] {
    return [...this.#incoming.keys()].map((id) => ({ do: 'abort', id, reason }) as const);
  }

  #receiveRequest(frame: JsonObject): ControlEffect {
    const { request_id, request } = frame;
    const id = keyOf(request_id);
    if (id === undefined) {
      const why = `control request with request_id ${JSON.stringify(request_id)}: expected a string or a number`;
      return { do: 'ignore', why, frame, unanswerable: true };
    }
    // Check this first: the error response to a malformed second request would settle the first
    // one.
    if (this.#incoming.has(id) || this.#withdrawn.has(id)) {
      return { do: 'ignore', why: `second control request with the id "${id}"`, frame };
    }
    if (!isObject(request) || typeof request['subtype'] !== 'string') {
      if (this.writeClosed) return { do: 'ignore', why: 'control request without subtype', frame };
      return errorResponse(id, 'invalid control request: expected request.subtype');
    }
    this.#incoming.set(id, request as ControlRequest);
    return { do: 'serve', id, request: request as ControlRequest };
  }

  #receiveResponse(frame: JsonObject): ControlEffect {
    const nested = asObject(frame['response']);
    // Older peers send the flat form: the id stands outside and the payload is bare. The payload
    // may have a request_id of its own, so the outer id wins if it is one of ours.
    const outer = frame['request_id'];
    const inner = nested['request_id'];
    const flat =
      typeof inner !== 'string' ||
      (typeof outer === 'string' && outer !== inner && this.#outgoing.has(outer));
    const id = flat ? outer : inner;
    const subtype = typeof id === 'string' ? this.#outgoing.get(id) : undefined;
    if (typeof id !== 'string' || subtype === undefined) {
      return { do: 'ignore', why: `response to an unknown request: ${JSON.stringify(id)}`, frame };
    }
    this.#outgoing.delete(id);
    if (flat) return { do: 'resolve', id, response: frame['response'], envelope: frame };
    if (nested['subtype'] === 'error')
      return { do: 'reject', id, error: responseError(subtype, nested) };
    return { do: 'resolve', id, response: nested['response'], envelope: nested };
  }

  #receiveCancel(frame: JsonObject): ControlEffect {
    const id = keyOf(frame['request_id']);
    if (id === undefined || !this.#incoming.delete(id)) {
      const requested = JSON.stringify(frame['request_id']);
      return { do: 'ignore', why: `cancel of an unknown request: ${requested}`, frame };
    }
    this.#withdrawn.add(id);
    return {
      do: 'abort',
      id,
      reason: new DuolaneError('canceled', 'the peer canceled its request'),
    };
  }
}

export const requestFrame = (id: string, request: ControlRequest): JsonObject => ({
  type: 'control_request',
  request_id: id,
  request,
});

/** The effect that writes an error response to a request of the peer. */
export const errorResponse = (id: string, error: string): ControlEffect => ({
  do: 'write',
  frame: { type: 'control_response', response: envelope(id, { ok: false, error }) },
});

/**
 * Converts the id of a peer's request to a key. Ids are strings, but some peers send numbers; the
 * key of a number begins with NUL, so that 1 and "1" are different.
 */
function keyOf(id: unknown): string | undefined {
  if (typeof id === 'number') return `\0${id}`;
  return typeof id === 'string' ? id : undefined;
}

/** The id as the peer wrote it. */
const wireId = (key: string): string | number =>
  key.startsWith('\0') ? Number(key.slice(1)) : key;

function envelope(key: string, answer: ControlResponse): JsonObject {
  const id = wireId(key);
  if (!answer.ok)
    return {
      subtype: 'error',
      request_id: id,
      error: answer.error,
      ...(answer.errorCode !== undefined && { error_code: answer.errorCode }),
    };
  const { response, envelope: rest } = answer;
  const success =
    response === undefined
      ? { subtype: 'success', request_id: id }
      : { subtype: 'success', request_id: id, response };
  return rest ? { ...rest, ...success } : success;
}

/**
 * The error for an error response. The peer's `error_code` becomes `errorCode`, as in the official
 * SDK.
 */
function responseError(subtype: string, response: JsonObject): DuolaneError {
  const { error, error_code: errorCode } = response;
  const text = typeof error === 'string' ? error : 'no reason given';
  const failure = new DuolaneError(
    errorCode === 'unsupported_request' ? 'unsupported' : 'invalid',
    `the peer refused ${subtype}: ${text}`,
    { cause: response },
  );
  return typeof errorCode === 'string' ? Object.assign(failure, { errorCode }) : failure;
}
