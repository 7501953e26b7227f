import { randomUUID } from 'node:crypto';
import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { Abortable } from '../../stream/types.ts';
import { onAbort } from '../../stream/abort.ts';
import {
  type ControlResponse,
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
} from '../../wire/control-peer.ts';
import { asObject } from '../../json.ts';

/** An answer at once is written before anything else happens; a promise when it settles. */
export type HandleControlRequest = (
  request: ControlRequest,
  options: { readonly signal: AbortSignal },
) => ControlResponse | Promise<ControlResponse>;

interface PendingRequest {
  readonly frame: JsonObject;
  resolve(response: unknown): void;
  reject(error: DuolaneError): void;
}

/**
 * The control lane of our side: the pure machine with promises around it. `request` rejects with the
 * refusal, with the signal's reason (and tells the host that nobody waits any more), or with
 * `closed` when the host has ended our input.
 */
export class ControlLink {
  readonly #peer: ControlPeer;
  readonly #write: (frame: JsonObject) => void;
  readonly #serve: HandleControlRequest;
  readonly #onUnanswerable: (why: string) => void;
  readonly #waiting = new Map<string, PendingRequest>();
  readonly #running = new Map<string, AbortController>();

  /** `onUnanswerable` is told of a request that has no id to answer under. */
  constructor(
    write: (frame: JsonObject) => void,
    serve: HandleControlRequest,
    onUnanswerable: (why: string) => void = () => {},
  ) {
    this.#onUnanswerable = onUnanswerable;
    this.#peer = new ControlPeer('agent');
    this.#write = write;
    this.#serve = serve;
  }

  async request(request: ControlRequest, { signal }: Abortable = {}): Promise<unknown> {
    signal?.throwIfAborted();
    const { id, effect } = this.#peer.request(request);
    let unlisten = (): void => {};
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const frame = effect.do === 'write' ? effect.frame : {};
        this.#waiting.set(id, { frame, resolve, reject });
        unlisten = onAbort(signal, (cause) => {
          const reason = DuolaneError.from(cause, 'canceled');
          for (const step of this.#peer.cancel(id, reason)) this.#perform(step);
        });
        this.#perform(effect);
      });
    } finally {
      unlisten();
    }
  }

  /** A request that nobody waits for an answer to: the host has closed our input and still reads. */
  notify(request: ControlRequest): void {
    this.#write({ type: 'control_request', request_id: randomUUID(), request });
  }

  /** Requests of ours that the host has not answered yet, as they were written. */
  pending(subtype: string): JsonObject[] {
    return [...this.#waiting.values()]
      .map(({ frame }) => frame)
      .filter(({ request }) => asObject(request)['subtype'] === subtype);
  }

  /** Takes a frame for which `isControl` holds. */
  receive(frame: JsonObject): void {
    this.#perform(this.#peer.receive(frame));
  }

  /** Nothing will come from the host any more: what we asked fails, what it asked is aborted. */
  end(reason: DuolaneError): void {
    for (const effect of this.#peer.end(reason)) this.#perform(effect);
  }

  #perform(effect: ControlEffect): void {
    switch (effect.do) {
      case 'write':
        this.#write(effect.frame);
        break;
      case 'serve':
        this.#start(effect.id, effect.request);
        break;
      case 'abort':
        this.#running.get(effect.id)?.abort(effect.reason);
        break;
      case 'resolve':
        this.#settle(effect.id)?.resolve(effect.response);
        break;
      case 'reject':
        this.#settle(effect.id)?.reject(effect.error);
        break;
      case 'lost': // the host has gone, or closed our input while it still reads: then it hears us
        this.#write(effect.frame);
        break;
      case 'ignore':
        if (effect.unanswerable) this.#onUnanswerable(effect.why);
        break;
    }
  }

  #settle(id: string): PendingRequest | undefined {
    const waiter = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiter;
  }

  #start(id: string, request: ControlRequest): void {
    const controller = new AbortController();
    this.#running.set(id, controller);
    const answer = (value: ControlResponse): void => {
      this.#running.delete(id);
      const effect = this.#peer.answer(id, value);
      if (effect) this.#perform(effect);
    };
    const fail = (reason: unknown): void => answer(handlerError(reason));
    try {
      const value = this.#serve(request, { signal: controller.signal });
      if (value instanceof Promise) value.then(answer, fail);
      else answer(value);
    } catch (reason) {
      fail(reason);
    }
  }
}

/** Whatever a handler threw, as an error answer. */
export function handlerError(reason: unknown): ControlResponse {
  const error = DuolaneError.from(reason);
  const errorCode = error.code === 'unsupported' ? 'unsupported_request' : error.code;
  return { ok: false, error: error.message, errorCode };
}
