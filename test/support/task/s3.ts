import { once } from 'node:events';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { S3Credentials } from '../../../src/task/s3/index.ts';
import { peer } from '../../peers.ts';

/** What happens to a request instead of a normal reply. */
export type S3Fault =
  /** An error of the service, without the request being done. */
  | { readonly status: number; readonly code: string }
  /** A reply with status 200, without the request being done. */
  | { readonly xml: string }
  /** The connection breaks before the request is done. */
  | 'cut'
  /** The request is done, and the connection breaks instead of the reply. */
  | 'lose'
  /** The connection breaks after so many bytes of the reply. */
  | { readonly cutAfter: number };

/** An S3-compatible server on loopback, in a temporary folder that disposal deletes. */
export interface S3Server extends AsyncDisposable {
  readonly endpoint: string;
  readonly bucket: string;
  readonly credentials: S3Credentials;
  /** All requests, as `METHOD path?query`. */
  readonly requests: string[];
  /** The headers of all requests. */
  readonly headers: IncomingMessage['headers'][];
  /** Chooses a fault for a request. */
  fault: (request: string) => S3Fault | undefined;
  /** The bytes of objects and of parts that it stores. */
  bytes(): Promise<number>;
}

const installed = await peer('s3');

/** Why the server is missing, for `suite`. */
export const s3Missing: string | undefined = installed.reason;

const BUCKET = 'blobs';

/**
 * Starts s3rver behind a proxy that makes faults. The proxy also answers `AbortMultipartUpload`,
 * which s3rver does not have.
 */
export async function startS3(): Promise<S3Server> {
  const folder = await mkdtemp(join(tmpdir(), 'duolane-s3-'));
  const { default: S3rver } = (await installed.import('@20minutes/s3rver')) as {
    readonly default: new (options: object) => {
      run(): Promise<AddressInfo>;
      close(): Promise<void>;
      readonly httpServer: { closeAllConnections(): void };
    };
  };
  const behind = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory: folder,
    vhostBuckets: false,
    configureBuckets: [{ name: BUCKET }],
  });
  const { port } = await behind.run();
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];

  const abortUpload = async (id: string, response: ServerResponse): Promise<void> => {
    await rm(join(folder, BUCKET, '._S3rver_uploads', basename(id)), { recursive: true });
    response.writeHead(204).end();
  };

  const front = createServer((incoming, response) => {
    const { method = '', url = '' } = incoming;
    const line = `${method} ${url}`;
    requests.push(line);
    headers.push(incoming.headers);
    const fault = server.fault(line);
    if (fault === 'cut') {
      incoming.socket.destroy();
      return;
    }
    if (typeof fault === 'object' && !('cutAfter' in fault)) {
      const [status, xml] =
        'xml' in fault
          ? [200, fault.xml]
          : [fault.status, `<Error><Code>${fault.code}</Code><Message>no</Message></Error>`];
      incoming.resume().on('end', () => {
        response.writeHead(status, { 'content-type': 'application/xml' }).end(xml);
      });
      return;
    }
    const uploadId = new URL(url, 'http://s3').searchParams.get('uploadId');
    if (method === 'DELETE' && uploadId !== null && incoming.headers.authorization) {
      abortUpload(uploadId, response).catch(() => response.writeHead(404).end());
      return;
    }
    const options = { port, host: '127.0.0.1', method, path: url, headers: incoming.headers };
    const forwarded = request(options, (reply) => {
      if (fault === 'lose') {
        reply.resume().on('end', () => incoming.socket.destroy());
        return;
      }
      response.writeHead(reply.statusCode ?? 500, reply.headers);
      let sent = 0;
      reply.on('data', (chunk: Buffer) => {
        const cutAfter = fault ? fault.cutAfter : Infinity;
        if (sent < cutAfter && !response.write(chunk.subarray(0, cutAfter - sent))) {
          reply.pause();
          response.once('drain', () => reply.resume());
        }
        sent += chunk.byteLength;
        if (sent >= cutAfter) response.write('', () => incoming.socket.destroy());
      });
      reply.on('end', () => response.end());
      response.on('close', () => reply.destroy());
    });
    forwarded.on('error', () => incoming.socket.destroy());
    incoming.on('aborted', () => forwarded.destroy());
    incoming.pipe(forwarded);
  }).listen(0, '127.0.0.1');
  await once(front, 'listening');

  const server: S3Server = {
    endpoint: `http://127.0.0.1:${(front.address() as AddressInfo).port}`,
    bucket: BUCKET,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    requests,
    headers,
    fault: () => undefined,
    async bytes() {
      const names = await readdir(join(folder, BUCKET), { recursive: true });
      // A part is a file with the number of the part.
      const stored = names.filter((name) => /(_object|\/\d+)$/.test(name));
      const sizes = stored.map(async (name) =>
        stat(join(folder, BUCKET, name)).then(
          ({ size }) => size,
          () => 0, // deleted meanwhile
        ),
      );
      return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
    },
    async [Symbol.asyncDispose]() {
      front.closeAllConnections();
      front.close();
      behind.httpServer.closeAllConnections();
      await behind.close();
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  return server;
}
