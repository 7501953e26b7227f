import { DuolaneError } from '../../errors.ts';
import type { JsonObject } from '../../json.ts';
import type { MessageTransport } from '../../mcp/types.ts';
import { Channel } from '../../stream/channel.ts';
import type { Machine, World } from '../kernel/world.ts';

/** A message that was sent over a link. */
export interface SentMessage {
  readonly at: number;
  readonly by: Machine;
  readonly message: JsonObject;
}

/** A connection between two machines. Messages take time and keep their order. */
export class SimulatedLink {
  readonly ends: readonly [MessageTransport, MessageTransport];
  readonly #channels: readonly Channel<JsonObject>[];
  readonly #world: World;
  readonly #onSent: (sent: SentMessage) => void;
  #isCut = false;

  constructor(
    world: World,
    [near, far]: readonly [Machine, Machine],
    onSent: (sent: SentMessage) => void,
  ) {
    this.#world = world;
    this.#onSent = onSent;
    const there = new Channel<JsonObject>();
    const back = new Channel<JsonObject>();
    this.#channels = [there, back];
    this.ends = [this.#end(near, far, back, there), this.#end(far, near, there, back)];
  }

  #end(
    own: Machine,
    peer: Machine,
    incoming: Channel<JsonObject>,
    outgoing: Channel<JsonObject>,
  ): MessageTransport {
    const world = this.#world;
    const random = world.random(`link of ${own.name}`);
    let lastAt = 0;
    return {
      incoming,
      send: (message) => {
        if (this.#isCut || outgoing.ended)
          return Promise.reject(new DuolaneError('closed', 'cannot send: the connection is lost'));
        this.#onSent({ at: world.now, by: own, message });
        // Messages pass as text, so that both sides share no object.
        const text = JSON.stringify(message);
        lastAt = Math.max(lastAt, world.now + 0.05 + random.next() ** 4 * 20);
        return new Promise((resolve) => {
          world.after(lastAt - world.now, peer, 'message', () => {
            // A message that comes after the end of the connection is lost.
            outgoing.push(JSON.parse(text) as JsonObject).then(resolve, () => resolve());
          });
        });
      },
      close: async () => {
        for (const channel of this.#channels) channel.close();
      },
    };
  }

  /** Loses the connection: what is under way does not arrive. */
  cut(): void {
    this.#isCut = true;
    for (const channel of this.#channels) channel.close();
  }
}
