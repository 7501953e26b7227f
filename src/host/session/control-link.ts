import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import { Cancellation } from '../../stream/cancellation.ts';
import type { Abortable } from '../../stream/types.ts';
import { onAbort } from '../../stream/abort.ts';
import {
  type ControlResponse,
  type ControlEffect,
  ControlPeer,
  type ControlRequest,
  errorResponse,
} from '../../wire/control-peer.ts';
import type { StdinGate } from './stdin-gate.ts';

/** A request of the peer that we serve: its `signal` aborts when the peer withdraws it or is gone. */
export class ServeContext extends Cancellation {
  readonly id: string;

  constructor(id: string) {
    super();
    this.id = id;
  }
}

/** Handles one request of the peer; undefined leaves it unanswered on purpose. */
export type ControlHandler = (
  request: ControlRequest,
  context: ServeContext,
) => Promise<ControlResponse | undefined>;

export interface DialogueOptions {
  readonly gate: StdinGate;
  readonly write: (frame: JsonObject) => void;
  readonly serve: ControlHandler;
  /** An answer that cannot be delivered. */
  readonly onLost: (request: ControlRequest, frame: JsonObject) => void;
  /** `unanswerable`: the peer asked something that cannot be answered, and waits. */
  readonly onIgnored: (why: string, frame: JsonObject, unanswerable: boolean) => void;
  /** Something was settled: the gate may have changed its mind. */
  readonly onSettled: () => void;
}

interface Pending {
  readonly resolve: (answer: { readonly response: unknown; readonly envelope: JsonObject }) => void;
  readonly reject: (error: DuolaneError) => void;
}

export interface ControlRequestOptions extends Abortable {
  /** false: stdin need not stay open for the answer. */
  readonly hold?: boolean;
}

/** Carries out what the control machine decides: our requests as promises, theirs as handlers. */
export class ControlLink {
  readonly #options: DialogueOptions;
  readonly #peer = new ControlPeer('host');
  readonly #pending = new Map<string, Pending>();
  readonly #running = new Map<string, ServeContext>();
  #whenQuiet: (() => void) | undefined;

  constructor(options: DialogueOptions) {
    this.#options = options;
  }

  /** How many handlers of ours run. */
  get serving(): number {
    return this.#running.size;
  }

  /** How many requests of ours wait for an answer. */
  get asking(): number {
    return this.#peer.outgoing.size;
  }

  async request(
    subtype: string,
    fields: JsonObject = {},
    { signal, hold = true }: ControlRequestOptions = {},
  ): Promise<{ readonly response: unknown; readonly envelope: JsonObject }> {
    signal?.throwIfAborted();
    const { id, effect } = this.#peer.request({ ...fields, subtype });
    if (hold && effect.do === 'write') this.#options.gate.hold(id, subtype);
    const answer = new Promise<{ readonly response: unknown; readonly envelope: JsonObject }>(
      (resolve, reject) => this.#pending.set(id, { resolve, reject }),
    );
    this.#ask(id, effect);
    if (!signal) return answer;
    const unlisten = onAbort(signal, (reason) =>
      this.#runAll(this.#peer.cancel(id, DuolaneError.from(reason, 'canceled'))),
    );
    return answer.finally(unlisten);
  }

  receive(frame: JsonObject): void {
    this.#run(this.#peer.receive(frame));
  }

  /** A request of ours that could not be written. */
  unwritten(frame: JsonObject, reason: DuolaneError): void {
    this.#runAll(this.#peer.cancel(String(frame['request_id']), reason));
  }

  closeWrite(reason: DuolaneError, options?: { readonly abandon?: boolean }): void {
    this.#runAll(this.#peer.closeWrite(reason, options));
  }

  /** The peer is gone. Its open requests are answered into the void, so that they show as lost. */
  end(reason: DuolaneError): void {
    this.#runAll(this.#peer.end(reason));
    for (const id of this.#peer.incoming.keys()) {
      this.#run(this.#peer.answer(id, { ok: false, error: reason.message }));
      this.#options.gate.release(served(id));
    }
  }

  /** Resolves when no handler runs any more, or after `ms`. */
  async quiet(ms: number): Promise<void> {
    if (this.#running.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#whenQuiet = () => {
        clearTimeout(timer);
        resolve();
      };
    });
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
        this.#running.get(effect.id)?.abort(effect.reason);
        this.#release(served(effect.id));
        return;
      case 'resolve':
        this.#settle(effect.id)?.resolve(effect);
        return;
      case 'reject':
        this.#settle(effect.id)?.reject(effect.error);
        return;
      case 'lost':
        this.#options.onLost(effect.request, effect.frame);
        return;
      case 'ignore':
        this.#options.onIgnored(effect.why, effect.frame, effect.unanswerable ?? false);
    }
  }

  #ask(id: string, effect: ControlEffect): void {
    try {
      this.#run(effect);
    } catch (error) {
      this.#peer.forget(id);
      this.#settle(id)?.reject(DuolaneError.from(error, 'invalid'));
    }
  }

  /** What has no JSON form (a BigInt, a cycle) is answered all the same: the peer waits. */
  #runAnswer(id: string, effect: ControlEffect | undefined): void {
    try {
      this.#run(effect);
    } catch (error) {
      const { message } = DuolaneError.from(error);
      this.#run(errorResponse(id, `the answer cannot be sent: ${message}`));
    }
  }

  #settle(id: string): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    this.#release(id);
    return pending;
  }

  #release(id: string): void {
    this.#options.gate.release(id);
    this.#options.onSettled();
  }

  #serve(id: string, request: ControlRequest): void {
    const context = new ServeContext(id);
    this.#running.set(id, context);
    this.#options.gate.hold(served(id), request);
    this.#options.serve(request, context).then(
      (answer) => this.#answer(id, answer),
      (error: unknown) => this.#answer(id, refusal(error)),
    );
  }

  #answer(id: string, answer: ControlResponse | undefined): void {
    this.#running.delete(id);
    if (answer) this.#runAnswer(id, this.#peer.answer(id, answer));
    else this.#peer.drop(id);
    this.#release(served(id));
    if (this.#running.size === 0) this.#whenQuiet?.();
  }
}

/** The name of a request of the peer at the gate: its id may be one that we use, too. */
const served = (id: string): string => `served ${id}`;

const refusal = (error: unknown): ControlResponse => ({
  ok: false,
  error: error instanceof Error ? error.message : String(error),
});
