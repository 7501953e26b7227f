import { getEventListeners } from 'node:events';
import type { Random } from '../random.ts';
import type { Machine, World } from '../world.ts';
import { Exchange } from './exchange.ts';

/** What goes wrong with the n-th request. */
export interface NetFault {
  readonly nth: number;
  /**
   * `refuse`: the server cannot be reached. `lose`: the connection breaks before the response.
   * `cut`: it breaks inside the body. `end`: a proxy ends the stream there, as if it were complete.
   * `stall`: nothing passes for a time. `twice`: the request arrives twice. `proxy`: a proxy
   * answers with an error page, after it has passed the request on or not.
   */
  readonly how: 'refuse' | 'lose' | 'cut' | 'end' | 'stall' | 'twice' | 'proxy';
  /** After so many bytes of the body. */
  readonly bytes: number;
  readonly ms: number;
}

/** A server in the world. */
export interface Endpoint {
  readonly machine: Machine;
  handle(request: Request): Promise<Response>;
}

/** HTTP between machines: the bytes of a body arrive later, in order and in any pieces. */
export class Network {
  readonly world: World;
  readonly random: Random;
  readonly #faults: readonly NetFault[];
  readonly #routes = new Map<string, () => Endpoint | undefined>();
  readonly #exchanges = new Set<Exchange>();
  readonly #received: { readonly signal: AbortSignal; readonly machine: Machine }[] = [];
  readonly #closed = new Set<Machine>();
  #count = 0;
  /** When the last connection that stalls goes on: until then a server may not know the end. */
  stalledUntil = 0;

  constructor(world: World, faults: readonly NetFault[]) {
    this.world = world;
    this.random = world.random('network');
    this.#faults = faults;
  }

  /** Says which server gets the requests for an origin; it is asked for each request. */
  route(origin: string, find: () => Endpoint | undefined): void {
    this.#routes.set(origin, find);
  }

  /** `fetch` of the machine that calls it. */
  readonly fetch = (input: string | URL | Request, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input instanceof Request ? input.url : input);
    const nth = ++this.#count;
    const fault = this.#faults.find((each) => each.nth === nth);
    if (fault) this.world.count(`net ${fault.how}`);
    const exchange = new Exchange(this, url, init, fault);
    return exchange.response;
  };

  endpoint(url: URL): Endpoint | undefined {
    const found = this.#routes.get(url.origin)?.();
    return found && this.#closed.has(found.machine) ? undefined : found;
  }

  /** A delay, mostly a short one. */
  delay(): number {
    return 0.1 + this.random.next() ** 6 * 50;
  }

  opened(exchange: Exchange): void {
    this.#exchanges.add(exchange);
  }

  closed(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
  }

  /** A request that a server has got: nothing may listen to its signal when all is over. */
  received(signal: AbortSignal, machine: Machine): void {
    this.#received.push({ signal, machine });
  }

  /** Stops listening on a machine: lets its responses end, and breaks those that take too long. */
  async close(machine: Machine, closeMs: number): Promise<void> {
    this.#closed.add(machine);
    const open = (): Exchange[] =>
      [...this.#exchanges].filter((exchange) => exchange.server === machine);
    for (let waited = 0; waited < closeMs && open().length > 0; waited += 100)
      await new Promise<void>((resolve) =>
        this.world.after(100, machine, 'closing', () => resolve()),
      );
    for (const exchange of open()) exchange.break();
  }

  /** Breaks every connection of a machine that was killed. */
  lose(machine: Machine): void {
    for (const exchange of this.#exchanges) exchange.lose(machine);
  }

  /** Checks that nothing is left of any exchange. */
  check(): void {
    for (const exchange of this.#exchanges)
      this.world.broken('no connection is left open', exchange.name);
    let listeners = 0;
    for (const { signal, machine } of this.#received)
      if (!machine.dead) listeners += getEventListeners(signal, 'abort').length;
    if (listeners > 0) this.world.broken('no listener is left on a request', `${listeners}`);
  }
}
