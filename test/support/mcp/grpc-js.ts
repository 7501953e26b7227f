import { fileURLToPath } from 'node:url';
import type { JsonObject } from '../../../src/json.ts';
import type { Peer } from '../../peers.ts';

const PROTO = fileURLToPath(new URL('../../../proto/', import.meta.url));

/** The part of @grpc/grpc-js that the tests use. */
export interface JsMetadata {
  add(key: string, value: string): void;
  get(key: string): unknown[];
}
export interface JsStatus extends Error {
  readonly code: number;
  readonly details: string;
  readonly metadata: JsMetadata;
}
export interface JsStream extends AsyncIterable<JsonObject> {
  cancel(): void;
  on(event: string, run: (value: never) => void): this;
}
type Callback = (error: JsStatus | null, value?: JsonObject) => void;
export type JsClient = Record<
  string,
  (request: JsonObject, metadata: JsMetadata, options: JsonObject, done?: Callback) => JsStream
> & { close(): void };
export interface JsServerCall {
  readonly request: JsonObject;
  readonly cancelled: boolean;
  readonly metadata: JsMetadata;
  write(message: JsonObject): boolean;
  end(): void;
  emit(event: 'error', error: { code: number; details: string; metadata?: JsMetadata }): void;
  on(event: 'cancelled', run: () => void): void;
}
interface JsServer {
  addService(service: unknown, handlers: Record<string, unknown>): void;
  bindAsync(address: string, credentials: unknown, done: (e: unknown, port: number) => void): void;
  forceShutdown(): void;
}
interface Library {
  readonly credentials: { createInsecure(): unknown };
  readonly ServerCredentials: { createInsecure(): unknown };
  readonly Metadata: new () => JsMetadata;
  readonly Server: new () => JsServer;
  loadPackageDefinition(definition: unknown): unknown;
}
type Service = (new (address: string, credentials: unknown) => JsClient) & {
  readonly service: unknown;
};

export interface GrpcJs {
  metadata(entries?: Record<string, string>): JsMetadata;
  client(service: string, url: string): JsClient;
  serve(service: string, handlers: Record<string, unknown>): Promise<{ url: string; stop(): void }>;
}

/** The common gRPC stack of Node with our .proto files; services by their full names. */
export async function grpcJs(peer: Peer): Promise<GrpcJs> {
  const { default: library } = (await peer.import('@grpc/grpc-js')) as { default: Library };
  const { default: loader } = (await peer.import('@grpc/proto-loader')) as {
    default: { loadSync(files: string[], options: JsonObject): unknown };
  };
  const files = [
    'mcp/stream/v1/mcp.proto',
    'model_context_protocol/mcp.proto',
    'grpc/health/v1/health.proto',
  ];
  const options = { includeDirs: [PROTO], keepCase: true, longs: Number, enums: String };
  const root = library.loadPackageDefinition(loader.loadSync(files, options));
  const find = (service: string): Service =>
    service.split('.').reduce((at, name) => (at as Record<string, unknown>)[name], root) as Service;
  return {
    metadata(entries = {}) {
      const metadata = new library.Metadata();
      for (const [key, value] of Object.entries(entries)) metadata.add(key, value);
      return metadata;
    },
    client: (service, url) =>
      new (find(service))(new URL(url).host, library.credentials.createInsecure()),
    async serve(service, handlers) {
      const server = new library.Server();
      server.addService(find(service).service, handlers);
      const port = await new Promise<number>((resolve, reject) =>
        server.bindAsync(
          '127.0.0.1:0',
          library.ServerCredentials.createInsecure(),
          (error, bound) => (error ? reject(error as Error) : resolve(bound)),
        ),
      );
      return { url: `grpc://127.0.0.1:${port}`, stop: () => server.forceShutdown() };
    },
  };
}
