import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { DuolaneError, malformed, unsupported } from '../../../errors.ts';
import {
  type GrpcCallOptions,
  type GrpcClient,
  type GrpcClientOptions,
  methodOf,
  STATUS,
  statusOf,
} from '../../../grpc/index.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import { withUpstream } from '../../relay/upstream.ts';
import type {
  AskOptions,
  CallOptions,
  SourceListenOptions,
  SourceChange,
  TimeLimits,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
} from '../../types.ts';
import {
  checkLimits,
  type KnownLimits,
  limitsOf,
  NO_LIMITS,
  streamWithinLimits,
  withinLimits,
} from '../../sources/request-timer.ts';
import { callOrFollow } from '../../sources/call-to-end.ts';
import { requestInRounds } from '../input-required.ts';
import { joined, type ResourcePart, toPart } from '../codec/resource-chunks.ts';
import { mapErrors, fromGrpcError } from '../codec/grpc-errors.ts';
import { fromCallEvent, toCallRequest } from '../codec/call-codec.ts';
import {
  CompleteRequestSchema,
  type DiscoverResponse,
  DiscoverRequestSchema,
  GetPromptRequestSchema,
  ListenRequestSchema,
  Mcp,
  ReadResourceRequestSchema,
} from '../gen/mcp/stream/v1/mcp_pb.ts';
import { parseObject, toText } from '../codec/json-text.ts';
import { Mcp as GoogleMcp } from '../gen/model_context_protocol/mcp_pb.ts';
import { ErrorReadingClient } from './error-reading-client.ts';
import { googleSource } from './google-source.ts';
import { grpcTasks } from './grpc-tasks.ts';
import { ListItems } from './list-items.ts';
import { LISTS, TUNNEL_METHOD } from '../codec/list-methods.ts';
import { callerMetadata, routingMetadata } from '../routing-metadata.ts';
import { tunnelUpstream } from '../tunnel.ts';

/** The options of `dialGrpc`. */
export interface DialGrpcOptions
  extends Abortable, TimeLimits, Omit<GrpcClientOptions, 'metadata'> {
  /** The address: `grpc://host:port`, or `grpcs://` for TLS. */
  readonly url: string;
  /** Sent as `authorization: Bearer <token>`; a function is called before each call. */
  readonly token?: string | (() => string | Promise<string>);
  /**
   * The size limit of one entry in `readResource`, which throws `too_large` beyond it; 64 MiB by
   * default. `streamResource` has no limit.
   */
  readonly maxResourceBytes?: number;
}

/** The options of reading a resource over gRPC; `offset` skips bytes. */
export interface GrpcReadOptions extends AskOptions {
  readonly offset?: number;
}

/** A source over gRPC. */
export interface GrpcSource extends ToolSource, AsyncDisposable {
  /**
   * Reads a resource in parts as they arrive, without joining them. Present only if the source has
   * resources.
   */
  streamResource?(uri: string, options?: GrpcReadOptions): AsyncIterable<ResourcePart>;
}

const MESSAGE_BYTES = 16 * 2 ** 20;
const RESOURCE_BYTES = 64 * 2 ** 20;

/**
 * Connects to a source over gRPC. It requests the server information first, so that a missing or
 * wrong server is reported immediately; `signal` covers only that. Later, a lost connection fails
 * its calls with `network`, and new calls connect again. Disposing cancels running calls. A server
 * that has only Google's service is dialled by that; it has no names, progress and questions.
 *
 * @example
 * ```ts
 * await using offered = await offerGrpc(createRegistry({ name: 'demo' }));
 * await using source = await dialGrpc({ url: offered.url });
 * ```
 */
export async function dialGrpc({
  url,
  token,
  signal,
  maxResourceBytes = RESOURCE_BYTES,
  timeoutMs,
  maxTotalMs,
  ...options
}: DialGrpcOptions): Promise<GrpcSource> {
  const given = omitUndefined<TimeLimits>({ timeoutMs, maxTotalMs });
  checkLimits(given);
  const limits = limitsOf(given);
  const client = new ErrorReadingClient(url, {
    maxMessageBytes: MESSAGE_BYTES,
    ...options,
    ...(token !== undefined && {
      metadata: async () => ({
        authorization: `Bearer ${typeof token === 'string' ? token : await token()}`,
      }),
    }),
  });
  try {
    const dialled = { client, limits, id: randomUUID() };
    const discovered = await discover(dialled, signal);
    if (!discovered) return googleSource(client, limits, new URL(url).host);
    const source = sourceOf(dialled, discovered, maxResourceBytes);
    return discovered.methods.includes(TUNNEL_METHOD)
      ? withUpstream(source, tunnelUpstream(client))
      : source;
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw fromGrpcError(error);
  }
}

/**
 * Requests what the server has; `undefined` if it has another service, such as Google's, and not
 * ours.
 */
async function discover(
  dialled: Dialled,
  signal: AbortSignal | undefined,
): Promise<DiscoverResponse | undefined> {
  const { client } = dialled;
  try {
    return await timed(dialled, 'Discover', signal, (within) =>
      client.unary(methodOf(Mcp.method.discover), create(DiscoverRequestSchema), within),
    );
  } catch (error) {
    if (statusOf(error)?.status !== STATUS.unimplemented) throw error;
  }
  const { listTools } = GoogleMcp.method;
  try {
    await timed(dialled, 'ListTools', signal, (within) =>
      client.unary(methodOf(listTools), create(listTools.input), within),
    );
    return undefined;
  } catch (error) {
    if (statusOf(error)?.status !== STATUS.unimplemented) throw error;
    throw unsupported(
      `the server has neither ${Mcp.typeName} nor ${GoogleMcp.typeName}; is it an MCP server?`,
    );
  }
}

/** The ToolSource of a connection, with the members that the server announced. */
function sourceOf(
  dialled: Dialled,
  { name, version, instructions, methods }: DiscoverResponse,
  maxResourceBytes: number,
): GrpcSource {
  const { client, limits } = dialled;
  const has = new Set(methods);
  const lists = LISTS.filter((list) => has.has(list.name)).map((list) => [
    list.list,
    (options?: ListOptions): Items<JsonObject> => new ListItems(dialled, list, options),
  ]);
  const once: ToolSource['callTool'] = (call, options) =>
    mapErrors(() => callTool(dialled, call, options), fromGrpcError);
  const tasks = has.has(Mcp.method.getTask.name)
    ? grpcTasks(client, limits, (method, taskId, options) =>
        optionsOf(dialled, method, taskId, options),
      )
    : undefined;
  const streamResource = (uri: string, options?: GrpcReadOptions): AsyncIterable<ResourcePart> =>
    mapErrors(() => resourceParts(dialled, uri, options), fromGrpcError);
  return {
    listTools: () => none<Tool>(),
    ...(Object.fromEntries(lists) as Partial<ToolSource>),
    info: omitUndefined<ToolSource['info']>({ name, version, instructions }),
    callTool: (call, options) =>
      callOrFollow({ callTool: once, ...(tasks && { tasks }) }, call, options),
    ...(tasks && { tasks }),
    ...(has.has(Mcp.method.readResource.name) && {
      streamResource,
      readResource: (uri, options) => joined(streamResource(uri, options), maxResourceBytes),
    }),
    ...(has.has(Mcp.method.getPrompt.name) && {
      getPrompt: (prompt, args, options) =>
        getPrompt(dialled, prompt, args, options).catch(rethrow),
    }),
    ...(has.has(Mcp.method.complete.name) && {
      complete: (request, options) => complete(dialled, request, options).catch(rethrow),
    }),
    ...(has.has(Mcp.method.listen.name) && {
      listen: (options) => mapErrors(() => listen(client, options), fromGrpcError),
    }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

async function* none<T>(): AsyncGenerator<T, void, undefined> {}

function rethrow(error: unknown): never {
  throw fromGrpcError(error);
}

/**
 * A connection, its time limits, and the id by which the server distinguishes its callers from
 * those of others.
 */
interface Dialled {
  readonly client: GrpcClient;
  readonly limits: KnownLimits;
  readonly id: string;
}

/** Runs a request with one response within the time limit of a request. */
const timed = <T>(
  { limits: { timeoutMs } }: Pick<Dialled, 'limits'>,
  what: string,
  given: AbortSignal | undefined,
  run: (options: { readonly signal: AbortSignal }) => Promise<T>,
): Promise<T> =>
  withinLimits({ timeoutMs, maxTotalMs: Infinity }, { what }, given, (signal) => run({ signal }));

/** The options of a call whose metadata says what it is for, and which caller makes it. */
function optionsOf(
  { id }: Dialled,
  method: Parameters<typeof routingMetadata>[0],
  name: string,
  { signal, deadline, caller }: CallOptions,
): GrpcCallOptions {
  const metadata = { ...routingMetadata(method, name), ...callerMetadata(id, caller) };
  return omitUndefined<GrpcCallOptions>({ signal, deadline, metadata });
}

async function* callTool(
  dialled: Dialled,
  call: ToolCall,
  given: CallOptions = {},
): AsyncGenerator<ToolEvent, void, undefined> {
  const one = { ...toCallRequest(call), ...(given.task && { acceptsTask: true }) };
  const options = optionsOf(dialled, 'tools/call', call.name, given);
  const method = methodOf(Mcp.method.callTool);
  const what = `call of tool "${call.name}"`;
  const limits = given.deadline === undefined ? dialled.limits : NO_LIMITS;
  const events = streamWithinLimits(limits, what, given.signal, (signal) =>
    dialled.client.stream(method, { one }, { ...options, signal }),
  );
  for await (const message of events) {
    const event = fromCallEvent(message);
    if (event) yield event;
    if (event?.type === 'result' || event?.type === 'input' || event?.type === 'task') return;
  }
  throw malformed(
    `the server sent no result for the call of tool "${call.name}": expected a last event`,
  );
}

async function* resourceParts(
  dialled: Dialled,
  uri: string,
  given: GrpcReadOptions = {},
): AsyncGenerator<ResourcePart, void, undefined> {
  const { ask, offset } = given;
  const options = optionsOf(dialled, 'resources/read', uri, given);
  const at = offset === undefined ? undefined : BigInt(offset);
  const what = `reading resource "${uri}"`;
  const { first, rest } = await requestInRounds(what, ask, options, async (answers) => {
    const one = create(ReadResourceRequestSchema, omitUndefined({ uri, answers, offset: at }));
    const limits = { ...dialled.limits, maxTotalMs: Infinity };
    const chunks = streamWithinLimits(limits, what, given.signal, (signal) =>
      dialled.client.stream(methodOf(Mcp.method.readResource), { one }, { ...options, signal }),
    );
    const chunk = await chunks.next();
    const questions = chunk.value?.inputRequired;
    if (!questions) return { result: { first: chunk, rest: chunks } };
    await chunks.return();
    return { questions };
  });
  try {
    for (let next = first; !next.done; next = await rest.next()) yield toPart(next.value);
  } finally {
    await rest.return();
  }
}

function getPrompt(
  dialled: Dialled,
  name: string,
  args: JsonObject,
  given: AskOptions = {},
): Promise<JsonObject> {
  const options = optionsOf(dialled, 'prompts/get', name, given);
  const argumentsJson = toText(args, 'the arguments');
  return requestInRounds(`prompt "${name}"`, given.ask, options, async (answers) => {
    const request = create(GetPromptRequestSchema, { name, argumentsJson, answers });
    const response = await timed(dialled, `prompt "${name}"`, given.signal, (within) =>
      dialled.client.unary(methodOf(Mcp.method.getPrompt), request, { ...options, ...within }),
    );
    const { resultJson, inputRequired } = response;
    return inputRequired
      ? { questions: inputRequired }
      : { result: parseObject(resultJson ?? '', 'GetPromptResponse.result_json') };
  });
}

async function complete(
  dialled: Dialled,
  request: JsonObject,
  { signal }: Abortable = {},
): Promise<JsonObject> {
  const message = create(CompleteRequestSchema, { requestJson: toText(request, 'the request') });
  const { resultJson } = await timed(dialled, 'completion', signal, (within) =>
    dialled.client.unary(methodOf(Mcp.method.complete), message, within),
  );
  return parseObject(resultJson, 'CompleteResponse.result_json');
}

const KINDS = ['listening', 'tools', 'resources', 'prompts', 'resource'] as const;

async function* listen(
  client: GrpcClient,
  { signal, resources = [] }: SourceListenOptions = {},
): AsyncGenerator<SourceChange, void, undefined> {
  const one = create(ListenRequestSchema, { resources: [...resources] });
  const changes = client.stream(methodOf(Mcp.method.listen), { one }, signal ? { signal } : {});
  for await (const { kind, uri } of changes) {
    const type = KINDS.find((known) => known === kind);
    if (type) yield omitUndefined<SourceChange>({ type, uri });
  }
  throw new DuolaneError('network', 'the server ended the stream of changes; listen again');
}
