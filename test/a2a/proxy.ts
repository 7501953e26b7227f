import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { once } from 'node:events';

/** A wire that can be cut: what goes to its port goes to `target`. */
export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** Where the next connections go. */
  target: string;
  /** Cuts the next connection that carries a stream behind so many events; undefined leaves it whole. */
  cutAfter: number | undefined;
  readonly cuts: number;
}

export async function openProxy(): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((client) => {
    const { hostname, port } = new URL(proxy.target);
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => {
        sockets.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    client.pipe(upstream);
    let events = -1; // the head of the response is not an event
    let tail = '';
    let streaming = false;
    upstream.on('data', (chunk: Buffer) => {
      const text = tail + chunk.toString('latin1');
      streaming ||= text.includes('text/event-stream');
      let from = 0;
      for (let at = text.indexOf('\n\n'); at >= 0; at = text.indexOf('\n\n', from)) {
        from = at + 2;
        events++;
        if (streaming && proxy.cutAfter !== undefined && events + 1 >= proxy.cutAfter) {
          proxy.cutAfter = undefined;
          cuts++;
          client.write(chunk.subarray(0, from - tail.length));
          client.resetAndDestroy();
          return;
        }
      }
      tail = text.slice(from).slice(-1);
      client.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const proxy = {
    url: `http://127.0.0.1:${port}`,
    target: '',
    cutAfter: undefined as number | undefined,
    get cuts() {
      return cuts;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
  return proxy;
}
