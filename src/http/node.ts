import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { DuolaneError } from '../errors.ts';
import { textsOf } from './sse.ts';

/** A server's whole job, in the web's own words. The request's signal aborts when the client leaves. */
export type Handler = (request: Request) => Promise<Response>;

export interface ListenOptions {
  readonly host?: string;
  readonly port?: number;
  /** How long a client may leave a full socket unread before it is cut; it can resume. */
  readonly stallMs?: number;
  readonly onError?: (error: unknown) => void;
}

export interface Listening extends AsyncDisposable {
  readonly url: string;
  readonly server: Server;
}

/** Serves the handler over node:http. Disposing stops listening and closes what is left open. */
export async function listen(
  handler: Handler,
  { host = '127.0.0.1', port = 0, stallMs = 30_000, onError = () => {} }: ListenOptions = {},
): Promise<Listening> {
  const server = createServer((incoming, outgoing) => {
    void serveOne(handler, incoming, outgoing, stallMs).catch((error: unknown) => {
      onError(error);
      if (!outgoing.headersSent) outgoing.writeHead(500, { 'content-type': 'text/plain' });
      outgoing.end();
    });
  });
  server.keepAliveTimeout = 65_000;
  server.listen(port, host);
  await Promise.race([
    once(server, 'listening'),
    once(server, 'error').then(([error]: unknown[]) => {
      throw listenError(error, host, port);
    }),
  ]);
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    server,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

function listenError(error: unknown, host: string, port: number): DuolaneError {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'EADDRINUSE') {
    return new DuolaneError(
      'invalid',
      `port ${port} on ${host} is in use; give another with --port`,
      {
        cause: error,
      },
    );
  }
  return new DuolaneError('invalid', `cannot listen on ${host}:${port} (${String(code)})`, {
    cause: error,
  });
}

async function serveOne(
  handler: Handler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  stallMs: number,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) gone.abort(new DuolaneError('closed', 'the client left'));
  });
  outgoing.on('error', () => {}); // the close event says it
  const response = await handler(toRequest(incoming, gone.signal));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  const texts = textsOf(response);
  if (texts) {
    outgoing.flushHeaders();
    await pipe(texts, outgoing, gone.signal, stallMs);
  } else if (response.body) {
    await pipe(Readable.fromWeb(response.body as never), outgoing, gone.signal, stallMs);
  }
  outgoing.end();
}

/** Writes as fast as the client reads; a client that stays away too long is cut. */
async function pipe(
  chunks: AsyncIterable<string | Uint8Array>,
  outgoing: ServerResponse,
  gone: AbortSignal,
  stallMs: number,
): Promise<void> {
  for await (const chunk of chunks) {
    if (gone.aborted) return;
    if (outgoing.write(chunk)) continue;
    const stalled = AbortSignal.timeout(stallMs);
    try {
      await once(outgoing, 'drain', { signal: AbortSignal.any([gone, stalled]) });
    } catch {
      if (!gone.aborted) outgoing.destroy();
      return;
    }
  }
}

function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers();
  for (let i = 0; i < incoming.rawHeaders.length; i += 2) {
    headers.append(incoming.rawHeaders[i] as string, incoming.rawHeaders[i + 1] as string);
  }
  const method = incoming.method ?? 'GET';
  const url = new URL(incoming.url ?? '/', `http://${incoming.headers.host ?? 'localhost'}`);
  const body = method === 'GET' || method === 'HEAD' ? undefined : Readable.toWeb(incoming);
  return new Request(url, {
    method,
    headers,
    signal,
    ...(body && { body, duplex: 'half' }),
  } as RequestInit);
}
