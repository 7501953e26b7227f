import { DuolaneError, errorMessage } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { onAbort, settledWithin } from '../stream/abort.ts';
import { Cancellation } from '../stream/cancellation.ts';
import type { Abortable } from '../stream/types.ts';
import {
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
  type ControlResponse,
  errorResponse,
  requestFrame,
} from './control-peer.ts';

/**
 * A request of the peer while its handler runs. It aborts when the peer withdraws it or is gone.
 */
export class ControlCall extends Cancellation {
  readonly id: string;

  constructor(id: string) {
    super();
    this.id = id;
  }
}

type Handled = ControlResponse | undefined;

/**
 * Handles one request of the peer. A response that is returned synchronously is written before
 * anything else happens: the acknowledgement of an interrupt must precede the end of the turn.
 * `undefined` leaves the request unanswered on purpose. An error becomes an error response.
 */
export type ControlHandler = (
  request: ControlRequest,
  call: ControlCall,
) => Handled | Promise<Handled>;

export interface ControlLinkOptions {
  /** The side of the pipe; it begins the ids of this side's requests. */
  readonly side: 'host' | 'agent';
  readonly write: (frame: JsonObject) => void;
  readonly handle: ControlHandler;
  /** Called after a request was settled, in either direction: the stdin gate may now open. */
  readonly onPendingChange?: () => void;
  /**
   * A response that cannot reach the peer. The host reports it. An agent CLI has no such listener:
   * its input has ended, but the host may still read, so the response is written anyway.
   */
  readonly onLost?: (request: ControlRequest, frame: JsonObject) => void;
  /**
   * `unanswerable`: the frame is a request without a usable id, so the peer waits for a response.
   */
  readonly onIgnored?: (why: string, frame: JsonObject, unanswerable: boolean) => void;
  /** Adds `error_code` to the error responses for handlers that throw. */
  readonly errorCodes?: boolean;
}

export interface ControlRequestOptions extends Abortable {
  /** false: the request does not count as pending, so stdin need not stay open for its response. */
  readonly hold?: boolean;
}

/** A successful response: its payload, and the frame's other members. */
export interface ControlResult {
  readonly response: unknown;
  readonly envelope: JsonObject;
}

interface PendingRequest {
  readonly request: ControlRequest;
  readonly hold: boolean;
  readonly resolve: (result: ControlResult) => void;
  readonly reject: (error: DuolaneError) => void;
}

/**
 * Drives a `ControlPeer`: requests of this side become promises, requests of the peer run handlers.
 * Host and agent CLI both use it.
 *
 * Each request settles exactly once: with the result, with the peer's error, with the signal's
 * reason (the peer then gets a cancel), or with `closed` when the pipe ends.
 */
export class ControlLink {
  readonly #options: ControlLinkOptions;
  readonly #peer: ControlPeer;
  readonly #requests = new Map<string, PendingRequest>();
  readonly #calls = new Map<string, ControlCall>();
  #unheld = 0;
  #onIdle: (() => void) | undefined;

  constructor(options: ControlLinkOptions) {
    this.#options = options;
    this.#peer = new ControlPeer(options.side);
  }

  /** How many handlers run. */
  get serving(): number {
    return this.#calls.size;
  }

  /** How many requests of this side wait for a response. */
  get asking(): number {
    return this.#requests.size;
  }

  /** How many requests need the pipe: those of the peer, and those of this side with `hold`. */
  get pendingCount(): number {
    return this.#peer.incoming.size + this.#requests.size - this.#unheld;
  }

  /**
   * The requests that `pendingCount` counts: of the peer as requests, of this side by their
   * subtype.
   */
  *pending(): Iterable<ControlRequest | string> {
    yield* this.#peer.incoming.values();
    for (const { request, hold } of this.#requests.values()) if (hold) yield request.subtype;
  }

  /**
   * The requests of this side with the given subtype that wait for a response, as they were
   * written.
   */
  unanswered(subtype: string): JsonObject[] {
    return [...this.#requests]
      .filter(([, { request }]) => request.subtype === subtype)
      .map(([id, { request }]) => requestFrame(id, request));
  }

  /** The response of the peer to a request. */
  request(request: ControlRequest, options?: ControlRequestOptions): Promise<unknown> {
    return this.exchange(request, options).then(({ response }) => response);
  }

  /** As `request`, with the members beside the response. */
  exchange(
    request: ControlRequest,
    { signal, hold = true }: ControlRequestOptions = {},
  ): Promise<ControlResult> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { id, effect } = this.#peer.request(request);
    const result = new Promise<ControlResult>((resolve, reject) =>
      this.#requests.set(id, { request, hold, resolve, reject }),
    );
    if (!hold) this.#unheld += 1;
    try {
      this.#run(effect);
    } catch (error) {
      // The frame has no JSON form, so it was not written, and no cancel may follow it.
      this.#peer.forget(id);
      this.#settle(id)?.reject(DuolaneError.from(error, 'invalid'));
    }
    if (!signal) return result;
    const unlisten = onAbort(signal, (reason) =>
      this.#runAll(this.#peer.cancel(id, DuolaneError.from(reason, 'canceled'))),
    );
    return result.finally(unlisten);
  }

  /** Writes a request without waiting for a response, also after the end of this side's input. */
  notify(request: ControlRequest): void {
    this.#options.write(requestFrame(crypto.randomUUID(), request));
  }

  /** Takes a frame for which `isControl` holds. */
  receive(frame: JsonObject): void {
    this.#run(this.#peer.receive(frame));
  }

  /** Rejects the request of a frame that could not be written. */
  unwritten(frame: JsonObject, reason: DuolaneError): void {
    this.#runAll(this.#peer.cancel(String(frame['request_id']), reason));
  }

  /**
   * Nothing more can be written. With `abandon`, handlers are aborted and their responses dropped.
   */
  closeWrite(reason: DuolaneError, options?: { readonly abandon?: boolean }): void {
    this.#runAll(this.#peer.closeWrite(reason, options));
  }

  /** The peer sends nothing more: open requests are rejected, and handlers are aborted. */
  end(reason: DuolaneError): void {
    this.#runAll(this.#peer.end(reason));
    if (!this.#options.onLost) return;
    // Answered now, so that each shows as lost although its handler may never return.
    for (const id of this.#peer.incoming.keys())
      this.#run(this.#peer.answer(id, { ok: false, error: reason.message }));
    this.#options.onPendingChange?.();
  }

  /** Resolves when no handler runs, or after `ms`. */
  async idle(ms: number): Promise<void> {
    if (this.#calls.size === 0) return;
    await settledWithin(new Promise<void>((resolve) => (this.#onIdle = resolve)), ms);
  }

  #runAll(effects: readonly ControlEffect[]): void {
    for (const effect of effects) this.#run(effect);
  }

  #run(effect: ControlEffect | undefined): void {
    switch (effect?.do) {
      case undefined:
        return;
      case 'write':
        this.#options.write(effect.frame);
        return;
      case 'serve':
        this.#serve(effect.id, effect.request);
        return;
      case 'abort':
        this.#calls.get(effect.id)?.abort(effect.reason);
        this.#options.onPendingChange?.();
        return;
      case 'resolve':
        this.#settle(effect.id)?.resolve(effect);
        return;
      case 'reject':
        this.#settle(effect.id)?.reject(effect.error);
        return;
      case 'lost':
        if (this.#options.onLost) this.#options.onLost(effect.request, effect.frame);
        else this.#options.write(effect.frame);
        return;
      case 'ignore':
        this.#options.onIgnored?.(effect.why, effect.frame, effect.unanswerable ?? false);
    }
  }

  #settle(id: string): PendingRequest | undefined {
    const pending = this.#requests.get(id);
    if (this.#requests.delete(id) && !pending?.hold) this.#unheld -= 1;
    this.#options.onPendingChange?.();
    return pending;
  }

  #serve(id: string, request: ControlRequest): void {
    const call = new ControlCall(id);
    this.#calls.set(id, call);
    try {
      const handled = this.#options.handle(request, call);
      if (!(handled instanceof Promise)) return this.#answer(id, handled);
      handled.then(
        (response) => this.#answer(id, response),
        (error: unknown) => this.#answer(id, this.#failed(error)),
      );
    } catch (error) {
      this.#answer(id, this.#failed(error));
    }
  }

  #answer(id: string, response: Handled): void {
    this.#calls.delete(id);
    if (response) this.#respond(id, this.#peer.answer(id, response));
    else this.#peer.drop(id);
    this.#options.onPendingChange?.();
    if (this.#calls.size === 0) this.#onIdle?.();
  }

  /**
   * A response without a JSON form (a BigInt, a cycle) becomes an error response: the peer waits.
   */
  #respond(id: string, effect: ControlEffect | undefined): void {
    try {
      this.#run(effect);
    } catch (error) {
      this.#run(errorResponse(id, `cannot send the response: ${errorMessage(error)}`));
    }
  }

  #failed(reason: unknown): ControlResponse {
    if (!this.#options.errorCodes) return { ok: false, error: errorMessage(reason) };
    const { code, message } = DuolaneError.from(reason);
    const errorCode = code === 'unsupported' ? 'unsupported_request' : code;
    return { ok: false, error: message, errorCode };
  }
}
