import { randomUUID } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { DuolaneError, malformed } from '../../../errors.ts';
import {
  type GrpcCallOptions,
  GrpcClient,
  type GrpcClientOptions,
  methodOf,
} from '../../../grpc/index.ts';
import { type JsonObject, omitUndefined } from '../../../json.ts';
import type { Abortable, Items, ListOptions } from '../../../stream/types.ts';
import type {
  AskOptions,
  CallOptions,
  SourceListenOptions,
  SourceChange,
  Tool,
  ToolCall,
  ToolEvent,
  ToolSource,
} from '../../types.ts';
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
import { grpcTasks } from './grpc-tasks.ts';
import { ListItems } from './list-items.ts';
import { LISTS } from '../codec/list-methods.ts';
import { callerMetadata, routingMetadata } from '../routing-metadata.ts';

/** The options of `dialGrpc`. */
export interface DialGrpcOptions extends Abortable, Omit<GrpcClientOptions, 'metadata'> {
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
 * its calls with `network`, and new calls connect again. Disposing cancels running calls.
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
  ...options
}: DialGrpcOptions): Promise<GrpcSource> {
  const client = new GrpcClient(url, {
    maxMessageBytes: MESSAGE_BYTES,
    ...options,
    ...(token !== undefined && {
      metadata: async () => ({
        authorization: `Bearer ${typeof token === 'string' ? token : await token()}`,
      }),
    }),
  });
  try {
    const discovered = await client.unary(
      methodOf(Mcp.method.discover),
      create(DiscoverRequestSchema),
      signal ? { signal } : {},
    );
    return sourceOf(client, discovered, maxResourceBytes);
  } catch (error) {
    await client[Symbol.asyncDispose]();
    throw fromGrpcError(error);
  }
}

/** The ToolSource of a connection, with the members that the server announced. */
function sourceOf(
  client: GrpcClient,
  { name, version, instructions, methods }: DiscoverResponse,
  maxResourceBytes: number,
): GrpcSource {
  const has = new Set(methods);
  const dialled = { client, id: randomUUID() };
  const lists = LISTS.filter((list) => has.has(list.name)).map((list) => [
    list.list,
    (options?: ListOptions): Items<JsonObject> => new ListItems(client, list, options),
  ]);
  const once: ToolSource['callTool'] = (call, options) =>
    mapErrors(() => callTool(dialled, call, options), fromGrpcError);
  const tasks = has.has(Mcp.method.getTask.name)
    ? grpcTasks(client, (method, taskId, options) => optionsOf(dialled, method, taskId, options))
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
      complete: (request, options) => complete(client, request, options).catch(rethrow),
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

/** A connection, and the id by which the server distinguishes its callers from those of others. */
interface Dialled {
  readonly client: GrpcClient;
  readonly id: string;
}

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
  const events = dialled.client.stream(methodOf(Mcp.method.callTool), { one }, options);
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
    const chunks = dialled.client.stream(methodOf(Mcp.method.readResource), { one }, options);
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
    const { resultJson, inputRequired } = await dialled.client.unary(
      methodOf(Mcp.method.getPrompt),
      create(GetPromptRequestSchema, { name, argumentsJson, answers }),
      options,
    );
    return inputRequired
      ? { questions: inputRequired }
      : { result: parseObject(resultJson ?? '', 'GetPromptResponse.result_json') };
  });
}

async function complete(
  client: GrpcClient,
  request: JsonObject,
  { signal }: Abortable = {},
): Promise<JsonObject> {
  const requestJson = toText(request, 'the request');
  const { resultJson } = await client.unary(
    methodOf(Mcp.method.complete),
    create(CompleteRequestSchema, { requestJson }),
    signal ? { signal } : {},
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
