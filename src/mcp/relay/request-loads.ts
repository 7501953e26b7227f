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
    let isOpen = true;
    return {
      [Symbol.dispose]: () => {
        if (!isOpen) return;
        isOpen = false;
        load[kind] -= 1;
        if (load.requests + load.subscriptions === 0) this.#loads.delete(owner);
      },
    };
  }
}
