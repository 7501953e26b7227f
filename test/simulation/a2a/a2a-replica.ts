import { serverContextOf, a2aServer, type A2AServer } from '../../../src/a2a/server/a2a-server.ts';
import { A2AError } from '../../../src/a2a/protocol/a2a-errors.ts';
import type { Agent } from '../../../src/event/types.ts';
import type { StreamSlot } from '../../../src/http/stream-registry.ts';
import { Cancellation } from '../../../src/stream/cancellation.ts';
import type { Endpoint, Network } from '../network/network.ts';
import type { Database } from '../tasks/database.ts';
import { Replica } from '../tasks/replica.ts';
import type { Machine, World } from '../world.ts';
import type { A2APlan } from './plan.ts';

export const ORIGIN = 'http://agents.test';

/** So many streams of one caller may be open; a leak of slots is found by opening as many. */
const MAX_STREAMS = 40;

/** A process with a log, a runner, and an A2A server for each agent. */
export class A2AReplica extends Replica implements Endpoint {
  readonly servers: ReadonlyMap<string, A2AServer>;
  readonly #world: World;
  readonly #network: Network;

  constructor(
    world: World,
    db: Database,
    machine: Machine,
    plan: A2APlan,
    network: Network,
    agents: Readonly<Record<string, Agent>>,
  ) {
    super(world, db, machine, plan, agents);
    this.#world = world;
    this.#network = network;
    const { log, runner } = this;
    const onError = (error: unknown): void => {
      if (A2AError.of(error).reason === 'INTERNAL_ERROR')
        world.broken('no failure is internal', String((error as Error).stack));
    };
    const serverOf = (agent: string): A2AServer =>
      a2aServer({
        agent,
        log,
        runner,
        url: `${ORIGIN}/${agent}`,
        description: { name: agent, description: 'a scripted agent' },
        push: false,
        heartbeatMs: plan.heartbeatMs,
        maxStreams: MAX_STREAMS,
        onError,
      });
    this.servers = new Map(Object.keys(agents).map((agent) => [agent, serverOf(agent)]));
  }

  async handle(request: Request): Promise<Response> {
    const [, agent = ''] = new URL(request.url).pathname.split('/');
    const server = this.servers.get(agent);
    return server ? server.handle(request) : new Response('Not found\n', { status: 404 });
  }

  /** As `serve` does: runs end, then streams, then the server stops listening. */
  protected override async closeStreams(twice: boolean): Promise<void> {
    const close = (): Promise<unknown> =>
      Promise.all([...this.servers.values()].map((server) => server[Symbol.asyncDispose]()));
    const closed = close();
    if (twice) await close();
    await closed;
    await this.#network.close(this.machine, 2000);
  }

  /** Every stream that has ended has given its slot back. */
  checkSlots(): void {
    for (const [agent, server] of this.servers) {
      const { streams } = serverContextOf(server);
      const slots: StreamSlot[] = [];
      try {
        while (slots.length < MAX_STREAMS)
          slots.push(streams.openStream(undefined, new Cancellation()));
      } catch {
        this.#world.broken('every stream gives its slot back', `${agent}: ${slots.length}`);
      }
      for (const slot of slots) slot.release();
    }
  }
}
