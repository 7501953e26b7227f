import { create, type DescFile, type DescService, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { DuolaneError, notFound } from '../errors.ts';
import { onAbort } from '../stream/abort.ts';
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
  HealthCheckResponseSchema,
} from './gen/grpc/health/v1/health_pb.ts';
import {
  ErrorResponseSchema,
  FileDescriptorResponseSchema,
  ListServiceResponseSchema,
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from './gen/grpc/reflection/v1/reflection_pb.ts';
import type { ServerCall } from './call.ts';
import { methodOf } from './method.ts';
import { bidiStream, type GrpcRoute, serverStream, unary } from './route.ts';
import { STATUS } from './status.ts';

export interface StandardOptions {
  /**
   * Maximum number of health watches of all clients together, and of reflection streams; 1,000 by
   * default. The next one is `rate_limited`.
   */
  readonly maxWatches?: number;
}

const MAX_WATCHES = 1_000;

/**
 * The longest request. These services need no credentials, so a client must not be able to make
 * the server buffer as much as for its other services.
 */
const MAX_REQUEST_BYTES = 8 * 1024;

/**
 * The longest name that reflection looks up. It looks up every prefix of a name, and reflection
 * needs no credentials: a name with a few thousand dots would block the process for a second.
 */
const MAX_SYMBOL_CHARS = 1_000;

/**
 * The services that every gRPC server has: health (SERVING as long as the server runs), and
 * reflection in both of its versions, so that a foreign client needs no .proto file.
 */
export function standardRoutes(
  services: readonly DescService[],
  { maxWatches = MAX_WATCHES }: StandardOptions = {},
): GrpcRoute[] {
  return [
    ...healthRoutes(services, maxWatches).map((route) => endSilent(route, maxWatches)),
    ...reflectionRoutes([...services, Health, ServerReflection], maxWatches),
  ].map(withShortRequests);
}

const withShortRequests = ({ path, serve }: GrpcRoute): GrpcRoute => ({
  path,
  serve: (call, maxMessageBytes) => serve(call, Math.min(maxMessageBytes, MAX_REQUEST_BYTES)),
});

/**
 * Ends the oldest call that has not sent its request when `most` others wait too. Without it, a
 * client without credentials could fill `maxCalls` with such calls. The newest is not refused
 * instead: a probe of an orchestrator must get its answer.
 */
function endSilent({ path, serve }: GrpcRoute, most: number): GrpcRoute {
  const silent = new Set<ServerCall>();
  return {
    path,
    async serve(call, maxMessageBytes) {
      const [oldest] = silent;
      if (oldest && silent.size >= most) {
        silent.delete(oldest);
        oldest.end(
          new DuolaneError('rate_limited', `calls without a request exceed maxWatches (${most})`),
        );
      }
      silent.add(call);
      call.stream.once('end', () => silent.delete(call));
      try {
        await serve(call, maxMessageBytes);
      } finally {
        silent.delete(call);
      }
    },
  };
}

function healthRoutes(services: readonly DescService[], maxWatches: number): GrpcRoute[] {
  let watches = 0;
  const known = new Set(['', ...services.map(({ typeName }) => typeName)]);
  const answer = (status: Serving) => create(HealthCheckResponseSchema, { status });
  return [
    unary(methodOf(Health.method.check), ({ service }) => {
      if (!known.has(service)) throw notFound(`unknown service "${service}"`);
      return answer(Serving.SERVING);
    }),
    serverStream(methodOf(Health.method.watch), async function* ({ service }, { signal }) {
      // Limited, because a watch needs no credentials and lasts as long as its client wants.
      if (watches >= maxWatches)
        throw new DuolaneError('rate_limited', `health watches exceed maxWatches (${maxWatches})`);
      watches += 1;
      try {
        yield answer(known.has(service) ? Serving.SERVING : Serving.SERVICE_UNKNOWN);
        await new Promise((_, reject) => onAbort(signal, reject));
      } finally {
        watches -= 1;
      }
    }),
  ];
}

type Answer = ServerReflectionResponse['messageResponse'];

function reflectionRoutes(services: readonly DescService[], maxStreams: number): GrpcRoute[] {
  let streams = 0;
  const files = new Map<string, DescFile>();
  const symbols = new Map<string, DescFile>();
  const add = (file: DescFile): void => {
    if (files.has(file.proto.name)) return;
    files.set(file.proto.name, file);
    for (const { typeName } of [...file.messages, ...file.enums, ...file.services])
      symbols.set(typeName, file);
    for (const each of file.dependencies) add(each);
  };
  for (const { file } of services) add(file);

  const described = (file: DescFile | undefined, what: string): Answer => {
    if (!file) return refused(STATUS.notFound, `Unknown: ${what}`);
    const all = new Set<DescFile>();
    const collect = (one: DescFile): void => {
      if (all.has(one)) return;
      all.add(one);
      one.dependencies.forEach(collect);
    };
    collect(file);
    const fileDescriptorProto = [...all].map((one) =>
      toBinary(FileDescriptorProtoSchema, one.proto),
    );
    return {
      case: 'fileDescriptorResponse',
      value: create(FileDescriptorResponseSchema, { fileDescriptorProto }),
    };
  };
  const answer = ({ messageRequest: { case: kind, value } }: ServerReflectionRequest): Answer => {
    if (kind === 'fileByFilename') return described(files.get(value), value);
    if (kind === 'fileContainingSymbol' && value.length > MAX_SYMBOL_CHARS)
      return refused(
        STATUS.invalidArgument,
        `invalid symbol: expected at most ${MAX_SYMBOL_CHARS} characters, got ${value.length}`,
      );
    if (kind === 'fileContainingSymbol') return described(containing(symbols, value), value);
    if (kind === 'listServices') {
      const service = services.map(({ typeName }) => ({ name: typeName }));
      return {
        case: 'listServicesResponse',
        value: create(ListServiceResponseSchema, { service }),
      };
    }
    return refused(STATUS.unimplemented, 'extensions are not supported');
  };

  const method = methodOf(ServerReflection.method.serverReflectionInfo);
  const older = { ...method, path: method.path.replace('.v1.', '.v1alpha.') };
  return [method, older].map((version) =>
    bidiStream(version, async function* (requests) {
      // Limited, because a stream needs no credentials and lasts as long as its client wants.
      if (streams >= maxStreams)
        throw new DuolaneError(
          'rate_limited',
          `reflection streams exceed maxWatches (${maxStreams})`,
        );
      streams += 1;
      try {
        for await (const request of requests)
          yield create(ServerReflectionResponseSchema, {
            validHost: request.host,
            originalRequest: request,
            messageResponse: answer(request),
          });
      } finally {
        streams -= 1;
      }
    }),
  );
}

/**
 * The file of a symbol: a method, a field or a nested type is in the file of the symbol that
 * contains it.
 */
function containing(symbols: ReadonlyMap<string, DescFile>, symbol: string): DescFile | undefined {
  for (let name = symbol; name !== ''; name = name.slice(0, Math.max(name.lastIndexOf('.'), 0)))
    if (symbols.has(name)) return symbols.get(name);
  return undefined;
}

const refused = (errorCode: number, errorMessage: string): Answer => ({
  case: 'errorResponse',
  value: create(ErrorResponseSchema, { errorCode, errorMessage }),
});
