import { asObject, type JsonObject } from '../../../../json.ts';
import { isRpcId, type RpcId } from '../../../../wire/json-rpc.ts';

/** How many cancellations are remembered for requests that have not arrived yet. */
const MAX_OVERTAKEN = 256;
/** A longer id is not remembered; no client has one. */
const MAX_ID_CHARS = 256;

/**
 * The cancellations of one client that arrived before their requests, which happens because each
 * message has a connection of its own. Without this, such a request would run to its end.
 */
export class EarlyCancels {
  readonly #running = new Set<RpcId>();
  readonly #overtaken = new Set<RpcId>();

  /** Remembers a cancellation whose request is not running. */
  cancel({ params }: JsonObject): void {
    const id = asObject(params)['requestId'];
    if (!isRpcId(id) || String(id).length > MAX_ID_CHARS || this.#running.has(id)) return;
    this.#overtaken.add(id);
    const [oldest] = this.#overtaken;
    if (this.#overtaken.size > MAX_OVERTAKEN && oldest !== undefined)
      this.#overtaken.delete(oldest);
  }

  /** Whether a request that arrives now was cancelled before. It is forgotten by this call. */
  take(id: RpcId): boolean {
    return this.#overtaken.delete(id);
  }

  /** Handles a request; a cancellation that arrives meanwhile is not early. */
  during<T>(id: RpcId, handled: Promise<T>): Promise<T> {
    this.#running.add(id);
    return handled.finally(() => this.#running.delete(id));
  }
}
