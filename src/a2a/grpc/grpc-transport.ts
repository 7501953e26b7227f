import { DuolaneError } from '../../errors.ts';
import { GrpcClient, type GrpcCallOptions } from '../../grpc/index.ts';
import type { JsonObject } from '../../json.ts';
import { CLIENT_10, type ClientDialect } from '../protocol/client-dialect.ts';
import type { A2ATransport, Received } from '../client/a2a-transport.ts';
import type { Operation, Version } from '../protocol/dialect.ts';
import { grpcMethods, type JsonMethod } from './codec.ts';
import { CLIENT_03_GRPC, takeEventId } from './grpc-dialects.ts';
import { fromGrpcStatus } from './status.ts';

/** Options of `A2AGrpcTransport`. */
export interface A2AGrpcTransportOptions {
  /** `grpc://host:port`, or `grpcs://`. */
  readonly url: string;
  readonly version: Version;
  readonly tenant?: string | undefined;
  readonly extensions: readonly string[];
  /** The metadata of every call. */
  readonly headers: Readonly<Record<string, string>>;
}

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/**
 * The gRPC binding of the client. Connects with the first call; disposing cancels running calls.
 */
export class A2AGrpcTransport implements A2ATransport {
  readonly dialect: ClientDialect;
  readonly retryMs = undefined;
  readonly #client: GrpcClient;
  readonly #methods: ReadonlyMap<Operation, JsonMethod>;
  readonly #options: A2AGrpcTransportOptions;

  constructor(options: A2AGrpcTransportOptions) {
    const { url, version } = options;
    this.#options = options;
    this.dialect = version === '1.0' ? CLIENT_10 : CLIENT_03_GRPC;
    this.#methods = new Map(grpcMethods(version));
    this.#client = new GrpcClient(url, { maxMessageBytes: MAX_MESSAGE_BYTES });
  }

  async call(operation: Operation, params: JsonObject, signal?: AbortSignal): Promise<unknown> {
    const { method, request } = this.#prepare(operation, params);
    try {
      return await this.#client.unary(method, request, this.#with(signal));
    } catch (error) {
      signal?.throwIfAborted();
      throw fromGrpcStatus(error, operation);
    }
  }

  async *stream(
    operation: 'stream' | 'subscribe',
    params: JsonObject,
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId?: string },
  ): AsyncGenerator<Received, void, undefined> {
    const { method, request } = this.#prepare(operation, params);
    const options = this.#with(signal, lastEventId);
    try {
      for await (const message of this.#client.stream(method, { one: request }, options)) {
        const [event, id] = takeEventId(message);
        yield this.#read(event, id);
      }
    } catch (error) {
      signal.throwIfAborted();
      throw fromGrpcStatus(error, operation);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }

  #read(event: JsonObject, id: string): Received {
    try {
      return { id, ...this.dialect.decodeEvent(event) };
    } catch (error) {
      return { malformed: DuolaneError.from(error, 'malformed') };
    }
  }

  #prepare(
    operation: Operation,
    params: JsonObject,
  ): { readonly method: JsonMethod; readonly request: JsonObject } {
    const { version, tenant } = this.#options;
    const method = this.#methods.get(operation);
    if (!method)
      throw new DuolaneError(
        'unsupported',
        `A2A ${version} over gRPC has no operation "${operation}"`,
      );
    const request = this.dialect.encode(operation, params);
    return { method, request: tenant === undefined ? request : { tenant, ...request } };
  }

  #with(signal: AbortSignal | undefined, lastEventId?: string): GrpcCallOptions {
    const { headers, extensions, version } = this.#options;
    const given = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
    const metadata = {
      'a2a-version': version,
      [this.dialect.extensionHeader]: extensions.join(', '),
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
      ...(Object.fromEntries(given) as Record<string, string>),
    };
    return { metadata, ...(signal && { signal }) };
  }
}
