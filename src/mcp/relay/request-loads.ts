import { DuolaneError } from '../../errors.ts';

/** How many requests of one owner run at the same time; more are refused, not queued. */
const MAX_RUNNING = 1_024;
/**
 * The same limit for `subscriptions/listen` requests, which stay open and are idle most of the
 * time.
 */
const MAX_SUBSCRIPTIONS = 10_000;
const LISTEN = 'subscriptions/listen';

interface Load {
  requests: number;
  subscriptions: number;
}

/**
 * How many requests of one endpoint run, by owner: requests without a session share one endpoint,
 * so each owner has its own limits. A request that only waits for changes is a subscription.
 */
export class RequestLoads {
  readonly #maxSubscriptions: number;
  readonly #loads = new Map<string | undefined, Load>();

  constructor(maxSubscriptions: number = MAX_SUBSCRIPTIONS) {
    this.#maxSubscriptions = maxSubscriptions;
  }

  /** Counts a request until it is disposed. Returns the error if the owner has too many. */
  take(owner: string | undefined, method: string): Disposable | DuolaneError {
    const load = this.#loads.get(owner) ?? { requests: 0, subscriptions: 0 };
    const kind = method === LISTEN ? 'subscriptions' : 'requests';
    const [max, what] =
      kind === 'subscriptions'
        ? [this.#maxSubscriptions, 'subscriptions exceed maxSubscriptions']
        : [MAX_RUNNING, 'concurrent requests exceed the limit'];
    if (load[kind] >= max)
      return new DuolaneError('overloaded', `${what} (${max}); try again later`);
    load[kind] += 1;
    this.#loads.set(owner, load);
    return new CountedRequest(load, kind, () => this.#forget(owner, load));
  }

  /** Removes an owner without requests. Callers without a login share one entry, which stays. */
  #forget(owner: string | undefined, { requests, subscriptions }: Load): void {
    if (owner !== undefined && requests + subscriptions === 0) this.#loads.delete(owner);
  }
}

/** One request in the count of its owner, until it is disposed. */
class CountedRequest implements Disposable {
  readonly #load: Load;
  readonly #kind: keyof Load;
  readonly #onEnd: () => void;
  #isOpen = true;

  constructor(load: Load, kind: keyof Load, onEnd: () => void) {
    this.#load = load;
    this.#kind = kind;
    this.#onEnd = onEnd;
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#load[this.#kind] -= 1;
    this.#onEnd();
  }
}
