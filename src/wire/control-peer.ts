import { DuolaneError } from '../errors.ts';
import { isObject, type JsonObject } from '../json.ts';

/** The body of a control request: what is asked, and the fields of that subtype. */
export interface ControlRequest extends JsonObject {
  readonly subtype: string;
}

export type ControlResponse =
  | {
      readonly ok: true;
      readonly response?: unknown;
      /** What rides beside the answer, as `pending_permission_requests` does. */
      readonly envelope?: JsonObject;
    }
  | { readonly ok: false; readonly error: string; readonly errorCode?: string };

/** What the driver around the machine has to do next. */
export type ControlEffect =
  /** Write this frame to the peer. */
  | { readonly do: 'write'; readonly frame: JsonObject }
  /** The peer asks: handle it in the background, then call `answer(id, …)` or `drop(id)` once. */
  | { readonly do: 'serve'; readonly id: string; readonly request: ControlRequest }
  /** The peer withdrew its request or is gone: stop the handler, nobody waits for its answer. */
  | { readonly do: 'abort'; readonly id: string; readonly reason: DuolaneError }
  /** Our request was answered; `envelope` holds what rides beside the answer. */
  | {
      readonly do: 'resolve';
      readonly id: string;
      readonly response: unknown;
      readonly envelope: JsonObject;
    }
  | { readonly do: 'reject'; readonly id: string; readonly error: DuolaneError }
  /** Our answer has nowhere to go, and the peer had not withdrawn its request. Never silence. */
  | {
      readonly do: 'lost';
      readonly id: string;
      readonly request: ControlRequest;
      readonly frame: JsonObject;
    }
  /**
   * Nothing to do but to log it: an answer to nothing, a second request under one id. With
   * `unanswerable` the peer asked something and will wait in vain.
   */
  | {
      readonly do: 'ignore';
      readonly why: string;
      readonly frame: JsonObject;
      readonly unanswerable?: true;
    };

const CONTROL = 'control_';

/** Whether a frame belongs to the control lane; every other frame is the message lane's. */
export const isControl = (frame: JsonObject): boolean =>
  typeof frame['type'] === 'string' && frame['type'].startsWith(CONTROL);

/**
 * One side of the stream-json control protocol as a pure machine: frames in, effects out; no
 * promise, no timer, no stream. Both sides of the pipe use it.
 *
 * It promises: every request of ours is settled exactly once, whatever the peer sends; every
 * request of the peer is served once and answered at most once; an answer that cannot be delivered
 * comes out as `lost` unless the peer itself withdrew the request.
 *
 * The pipe has two ends that close apart: after `closeWrite` nothing of ours reaches the peer but
 * answers to what we asked may still come; after `end` there is no peer.
 */
export class ControlPeer {
  readonly #prefix: string;
  readonly #asked = new Map<string, string>(); // our requests: id to subtype
  readonly #serving = new Map<string, ControlRequest>();
  // Ids whose handler still runs although the peer no longer waits: not to be served a second time.
  readonly #withdrawn = new Set<string>();
  #next = 0;
  writeClosed: DuolaneError | undefined;
  #ended = false;

  /** `prefix` keeps the ids of two peers apart in a trace. */
  constructor(prefix = 'req') {
    this.#prefix = prefix;
  }

  /** Our requests that wait for an answer: id to subtype. */
  get outgoing(): ReadonlyMap<string, string> {
    return this.#asked;
  }

  /** Requests of the peer that wait for ours. */
  get incoming(): ReadonlyMap<string, ControlRequest> {
    return this.#serving;
  }

  request(request: ControlRequest): { readonly id: string; readonly effect: ControlEffect } {
    const id = `${this.#prefix}_${++this.#next}`;
    if (this.writeClosed) {
      const error = new DuolaneError(
        'closed',
        `cannot ask ${request.subtype}: ${this.writeClosed.message}`,
        { cause: this.writeClosed },
      );
      return { id, effect: { do: 'reject', id, error } };
    }
    this.#asked.set(id, request.subtype);
    return {
      id,
      effect: { do: 'write', frame: { type: 'control_request', request_id: id, request } },
    };
  }

  /** A request of ours that never left: nobody answers it, and nothing is withdrawn. */
  forget(id: string): void {
    this.#asked.delete(id);
  }

  /** Withdraws a request of ours; it is rejected with `reason` and a late answer is ignored. */
  cancel(id: string, reason: DuolaneError): readonly ControlEffect[] {
    if (!this.#asked.delete(id)) return [];
    const rejected = { do: 'reject', id, error: reason } as const;
    if (this.writeClosed) return [rejected];
    return [{ do: 'write', frame: { type: 'control_cancel_request', request_id: id } }, rejected];
  }

  /** The answer of our own handler to the peer's request `id`. */
  answer(id: string, answer: ControlResponse): ControlEffect | undefined {
    const request = this.#serving.get(id);
    if (!request) {
      this.#withdrawn.delete(id);
      return undefined;
    }
    this.#serving.delete(id);
    const frame = { type: 'control_response', response: envelope(id, answer) };
    return this.writeClosed ? { do: 'lost', id, request, frame } : { do: 'write', frame };
  }

  /** The peer's request `id` is left unanswered on purpose: it was cancelled inside its payload. */
  drop(id: string): void {
    this.#serving.delete(id);
    this.#withdrawn.delete(id);
  }

  /** Takes a frame for which `isControl` holds. */
  receive(frame: JsonObject): ControlEffect {
    switch (frame['type']) {
      case 'control_request':
        return this.#receiveRequest(frame);
      case 'control_response':
        return this.#receiveResponse(frame);
      case 'control_cancel_request':
        return this.#receiveCancel(frame);
      default:
        return { do: 'ignore', why: `unknown control frame ${String(frame['type'])}`, frame };
    }
  }

  /**
   * Nothing of ours reaches the peer from now on. With `abandon` we left by our own will: what the
   * peer asked is aborted, and the answers are dropped without a word.
   */
  closeWrite(
    reason: DuolaneError,
    { abandon = false }: { readonly abandon?: boolean } = {},
  ): readonly ControlEffect[] {
    this.writeClosed ??= reason;
    if (!abandon) return [];
    const aborted = this.#abortServing(reason);
    for (const id of this.#serving.keys()) this.#withdrawn.add(id);
    this.#serving.clear();
    return aborted;
  }

  /** The peer is gone: what we asked is rejected, what it asked is aborted. */
  end(reason: DuolaneError): readonly ControlEffect[] {
    if (this.#ended) return [];
    this.#ended = true;
    this.writeClosed ??= reason;
    const rejected = [...this.#asked.keys()].map(
      (id) => ({ do: 'reject', id, error: reason }) as const,
    );
    this.#asked.clear();
    return [...rejected, ...this.#abortServing(reason)];
  }

  #abortServing(reason: DuolaneError): readonly ControlEffect[] {
    return [...this.#serving.keys()].map((id) => ({ do: 'abort', id, reason }) as const);
  }

  #receiveRequest(frame: JsonObject): ControlEffect {
    const { request_id, request } = frame;
    const id = keyOf(request_id);
    if (id === undefined) {
      const why = `a control request with request_id ${JSON.stringify(request_id)}: expected a string or a number`;
      return { do: 'ignore', why, frame, unanswerable: true };
    }
    // First of all, or a malformed second request would answer the one that is served.
    if (this.#serving.has(id) || this.#withdrawn.has(id)) {
      return { do: 'ignore', why: `a second control request under the id ${id}`, frame };
    }
    if (!isObject(request) || typeof request['subtype'] !== 'string') {
      if (this.writeClosed)
        return { do: 'ignore', why: 'a control request without subtype', frame };
      const answer = envelope(id, { ok: false, error: 'a control request needs request.subtype' });
      return { do: 'write', frame: { type: 'control_response', response: answer } };
    }
    this.#serving.set(id, request as ControlRequest);
    return { do: 'serve', id, request: request as ControlRequest };
  }

  #receiveResponse(frame: JsonObject): ControlEffect {
    const nested = isObject(frame['response']) ? frame['response'] : {};
    // The flat form of older peers has the id outside and the payload bare, whatever members it has.
    const outer = frame['request_id'];
    const inner = nested['request_id'];
    const flat =
      typeof inner !== 'string' ||
      (typeof outer === 'string' && outer !== inner && this.#asked.has(outer));
    const id = flat ? outer : inner;
    const subtype = typeof id === 'string' ? this.#asked.get(id) : undefined;
    if (typeof id !== 'string' || subtype === undefined) {
      return { do: 'ignore', why: `an answer to nothing that waits: ${JSON.stringify(id)}`, frame };
    }
    this.#asked.delete(id);
    if (flat) return { do: 'resolve', id, response: frame['response'], envelope: frame };
    if (nested['subtype'] === 'error') return { do: 'reject', id, error: refusal(subtype, nested) };
    return { do: 'resolve', id, response: nested['response'], envelope: nested };
  }

  #receiveCancel(frame: JsonObject): ControlEffect {
    const id = keyOf(frame['request_id']);
    if (id === undefined || !this.#serving.delete(id)) {
      const asked = JSON.stringify(frame['request_id']);
      return { do: 'ignore', why: `a cancel of nothing that runs: ${asked}`, frame };
    }
    this.#withdrawn.add(id);
    return {
      do: 'abort',
      id,
      reason: new DuolaneError('canceled', 'the peer withdrew its request'),
    };
  }
}

/** The frame that refuses a request of the peer. */
export const errorResponse = (id: string, error: string): ControlEffect => ({
  do: 'write',
  frame: { type: 'control_response', response: envelope(id, { ok: false, error }) },
});

/**
 * The id of a peer's request as a key. Ids are strings, but some peers send numbers; such a key
 * begins with a NUL, which keeps 1 and "1" apart.
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

/** Why the peer said no; its own `error_code` is there as `errorCode`, as in the official SDK. */
function refusal(subtype: string, response: JsonObject): DuolaneError {
  const { error, error_code: errorCode } = response;
  const text = typeof error === 'string' ? error : 'no reason given';
  const refused = new DuolaneError(
    errorCode === 'unsupported_request' ? 'unsupported' : 'invalid',
    `the peer refused ${subtype}: ${text}`,
    { cause: response },
  );
  return typeof errorCode === 'string' ? Object.assign(refused, { errorCode }) : refused;
}
