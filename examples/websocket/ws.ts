import type { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';
import type { Socket } from './transport.ts';

/** What the example uses of the package `ws`, which has no types of its own. */
export interface Ws {
  readonly WebSocket: new (
    url: string,
    protocol: string,
    options: { readonly maxPayload: number },
  ) => Socket & EventEmitter;
  readonly WebSocketServer: new (options: {
    readonly host: string;
    readonly port: number;
    readonly maxPayload: number;
  }) => EventEmitter & {
    on(event: 'connection', listener: (socket: Socket) => void): unknown;
    address(): { readonly port: number };
    close(): void;
    readonly clients: Iterable<Socket>;
  };
}

/** Loads `ws`. In your app it is in node_modules; here it is a pinned peer of the tests. */
export async function loadWs(): Promise<Ws> {
  const root = new URL('../../../', import.meta.url);
  const { ensurePeer } = (await import(new URL('scripts/peers.mjs', root).href)) as {
    ensurePeer: (name: string) => Promise<{ readonly reason?: string }>;
  };
  const { reason } = await ensurePeer('ws');
  if (reason !== undefined) throw new Error(reason);
  return createRequire(new URL('peers/ws/package.json', root))('ws') as Ws;
}
