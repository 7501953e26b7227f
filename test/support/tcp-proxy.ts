import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy between two programs that can interrupt the network between them. */
export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Closes every connection and refuses new ones, as if the peer machine were down. */
  cut(): void;
  /** Forwards nothing and closes nothing, as if a cable were pulled. */
  stall(): void;
  /** Restores the network. Stalled data is delivered; closed connections stay closed. */
  mend(): void;
}

export async function tcpProxy(target: number): Promise<TcpProxy> {
  let state: 'open' | 'cut' | 'stalled' = 'open';
  const sockets = new Set<Socket>();
  const join = (socket: Socket): void => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    if (state === 'stalled') socket.pause();
  };
  const server = createServer((near) => {
    if (state === 'cut') return near.destroy();
    const far = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('data', (chunk) => to.write(chunk));
      from.on('close', () => to.destroy());
      join(from);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      state = 'cut';
      for (const socket of sockets) socket.destroy();
    },
    stall() {
      state = 'stalled';
      for (const socket of sockets) socket.pause();
    },
    mend() {
      state = 'open';
      for (const socket of sockets) socket.resume();
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
