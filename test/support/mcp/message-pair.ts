import { DuolaneError } from '../../../src/errors.ts';
import type { JsonObject } from '../../../src/json.ts';
import type { MessageTransport } from '../../../src/mcp/types.ts';
import { Channel } from '../../../src/stream/channel.ts';

export interface Road extends MessageTransport {
  close(): Promise<void>;
  /** Everything that this side has sent. */
  readonly sent: JsonObject[];
}

/**
 * Two ends of a transport in memory. Messages pass as text, so that no object is shared by
 * accident.
 */
export function messagePair(): [Road, Road] {
  const there = new Channel<JsonObject>({ capacity: 4 });
  const back = new Channel<JsonObject>({ capacity: 4 });
  const end = (from: Channel<JsonObject>, to: Channel<JsonObject>): Road => {
    const sent: JsonObject[] = [];
    return {
      sent,
      incoming: from,
      async send(message) {
        sent.push(message);
        if (to.ended) throw new DuolaneError('closed', 'cannot send: the peer has disconnected');
        await to.push(JSON.parse(JSON.stringify(message)) as JsonObject);
      },
      async close() {
        to.close();
        from.close();
      },
    };
  };
  return [end(back, there), end(there, back)];
}
