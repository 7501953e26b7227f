import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buildEnv, spawnProcess } from '../../../src/process/index.ts';
import { sleep } from '../../../src/stream/abort.ts';
import type { Peer } from '../../peers.ts';
import type { HttpServer } from './mcp-http.ts';

/** The official "everything" server over HTTP, in a separate process. */
export async function everything(peer: Peer, mode: 'streamableHttp' | 'sse'): Promise<HttpServer> {
  const port = await freePort();
  const entry = 'node_modules/@modelcontextprotocol/server-everything/dist/index.js';
  const child = spawnProcess({
    command: process.execPath,
    args: [join(peer.path, entry), mode],
    cwd: peer.path,
    env: buildEnv({ base: process.env, set: { PORT: String(port) } }),
  });
  const origin = `http://127.0.0.1:${port}`;
  for (let tries = 0; !(await answers(origin)); tries += 1) {
    if (tries > 300) throw new Error('server-everything does not listen');
    await sleep(100);
  }
  return {
    url: `${origin}/${mode === 'sse' ? 'sse' : 'mcp'}`,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

const answers = (origin: string): Promise<boolean> =>
  fetch(`${origin}/nothing`).then(
    async (response) => {
      await response.arrayBuffer();
      return true;
    },
    () => false,
  );

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
